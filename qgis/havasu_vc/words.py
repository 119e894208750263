"""Texts in the language of QGIS: `tr` looks them up, and is what translators' tools search for."""

from __future__ import annotations

from pathlib import Path

from qgis.core import QgsApplication
from qgis.PyQt.QtCore import QCoreApplication, QTranslator

__all__ = ["install_translation", "tr"]


def tr(text: str) -> str:
    """Return a text in the language of QGIS."""
    return QCoreApplication.translate("HavasuVC", text)


def install_translation() -> QTranslator | None:
    """Load the texts of the language that QGIS is in, if there are any."""
    file = Path(__file__).parent / "i18n" / f"havasu_vc_{QgsApplication.locale()}.qm"
    if not file.is_file():
        return None
    translator = QTranslator()
    translator.load(str(file))
    QCoreApplication.installTranslator(translator)
    return translator
