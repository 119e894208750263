"""Holding real gits in the middle of what they do, by their own hooks.

gate = Gate(folder)
gate.guard(server / "hooks", "pre-receive", "refs/heads/main")
...                 whoever pushes to main is held when all is there and no ref has moved
gate.wait()         until somebody is
gate.open()
"""

import time
from pathlib import Path

__all__ = ["Gate"]

HOLD = """#!/bin/sh
hold() {{
    [ -e {gate}/held ] && return
    touch {gate}/held
    for i in $(seq 600); do [ -e {gate}/go ] && return; sleep 0.05; done
}}
while read old new ref; do
    case $ref in {ref}) hold;; esac
done
exit 0
"""


class Gate:
    """Holds whatever comes first, until it is let go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def guard(self, hooks: Path, name: str, ref: str) -> None:
        hooks.mkdir(exist_ok=True)
        (hooks / name).write_text(HOLD.format(gate=self.folder, ref=ref))
        (hooks / name).chmod(0o755)

    def wait(self) -> None:
        for _ in range(600):
            if (self.folder / "held").exists():
                return
            time.sleep(0.05)
        raise AssertionError("nothing came")

    def open(self) -> None:
        (self.folder / "go").touch()
