"""The plugin's windows on Qt 6, by a Python that has PyQt6: `HAVASU_VC_QT6` names it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("HAVASU_VC_QT6"), reason="no Python with PyQt6 is named")
def test_the_windows_work_on_qt_6() -> None:
    program = Path(sys.executable).parent / "havasu-vc"
    done = subprocess.run(
        [os.environ["HAVASU_VC_QT6"], str(ROOT / "qgis" / "tests" / "on_qt6.py")],
        env={**os.environ, "HAVASU_VC_PROGRAM": str(program)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
