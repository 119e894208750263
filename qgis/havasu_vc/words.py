"""Texts in the language of QGIS: `tr` looks them up, and is what translators' tools search for."""

from __future__ import annotations

from html import escape
from pathlib import Path

from qgis.core import QgsApplication
from qgis.PyQt.QtCore import QCoreApplication, QTranslator

__all__ = ["as_text", "install_translation", "tr", "without_mnemonic"]


def tr(text: str) -> str:
    """Return a text in the language of QGIS."""
    return QCoreApplication.translate("HavasuVC", text)


def as_text(text: str) -> str:
    """Return a text for where Qt guesses whether it is HTML: names and values are never that."""
    return f"<span style='white-space: pre-wrap'>{escape(text, quote=False)}</span>"


def without_mnemonic(text: str) -> str:
    """Return a text for a button or menu, in which & would underline a letter."""
    return text.replace("&", "&&")


def install_translation() -> QTranslator | None:
    """Load the texts of the language that QGIS is in, if there are any."""
    file = Path(__file__).parent / "i18n" / f"havasu_vc_{QgsApplication.locale()}.qm"
    if not file.is_file():
        return None
    translator = QTranslator()
    translator.load(str(file))
    QCoreApplication.installTranslator(translator)
    return translator
