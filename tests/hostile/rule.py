"""The one rule that holds of every command on every item."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.commands import COMMANDS, made, run
from tests.hostile.items import Item
from tests.hostile.scene import SECRET, Ground, Result, Scene, copy, place

__all__ = ["Normal", "broken"]

MEMORY = 50 << 20
"""Bytes beyond what the command takes on sound things and four times the input."""
PROCESSOR = 2.0
"""Seconds of processor beyond what it takes on sound things."""
PER_BYTE = 200e-9
"""Seconds of processor that a byte of input may take; reading and checking is work."""
PER_COLUMN = 600e-6
"""Seconds of processor that a column may take, however few its bytes: two objects of git, a line of
each schema and a chunk of each file, for which Arrow alone takes 0.2 ms."""
MEMORY_PER_COLUMN = 10 << 10
"""Bytes that a column may take, for what Arrow keeps of each while it writes a file."""

_BUG = re.compile(rb"internal error|Traceback|not enough memory|HAVASU_VC_DEBUG|object at 0x")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Normal:
    """What a command takes on sound things."""

    processor: float
    memory: int


def normal(results: list[Result]) -> Normal:
    """Return what the most costly of some command lines took."""
    return Normal(max(r.processor for r in results), max(r.memory for r in results))


def broken(
    ground: Ground,
    item: Item,
    commands: list[str],
    usual: dict[str, Normal],
    most: int | None = None,
) -> list[str]:
    """Run commands on an item, or so many lines of each, and return what does not hold."""
    place(ground)
    scene = Scene(ground, ground.folder)
    found: list[str] = []
    try:
        item.make(scene)
        kept = ground.base / "kept"
        place_copy(ground, kept)
        dirty = False
        size = _size(ground.folder) - _size(ground.template) + item.unpacked
        ground.watch.heard()
        ground.calls.heard()
        for name in commands:
            if dirty or COMMANDS[name].writes:
                place(ground, kept)
            dirty = COMMANDS[name].writes
            results = run(scene, name, most)
            found += [
                f"{name}: {what}"
                for what in _broken(scene, item, name, results, usual.get(name), size)
            ]
    finally:
        for close in scene.closing:
            close()
    return found


def place_copy(ground: Ground, kept: Path) -> None:
    """Keep a copy of the scene."""
    import shutil

    shutil.rmtree(kept, ignore_errors=True)
    copy(ground.folder, kept)


def _broken(
    scene: Scene, item: Item, name: str, results: list[Result], usual: Normal | None, size: int
) -> list[str]:
    ground, found = scene.ground, []
    for result in results:
        line = " ".join(result.arguments)
        found += [f"`{line}`: {what}" for what in _said(result)]
        if usual is not None:
            limit = usual.processor + PROCESSOR + PER_BYTE * size + PER_COLUMN * item.columns
            if result.processor > limit:
                found.append(f"`{line}` took {result.processor:.1f} s of {limit:.1f} s")
            bound = usual.memory + MEMORY + 4 * size + MEMORY_PER_COLUMN * item.columns
            if result.memory > bound:
                found.append(f"`{line}` took {result.memory >> 20} MB of {bound >> 20} MB")
    if item.good and name in ("ls", "good"):
        found += [
            f"the good dataset is not to be had: {result.errors.decode('utf-8', 'replace')}"
            for result in results
            if result.code
        ]
    for path in made(scene):
        if SECRET.encode() in path.read_bytes():
            found.append(f"{path.name} holds a secret")
    heard = [path for path in ground.watch.heard() if Path(path).name not in item.may_open]
    if heard:
        found.append(f"opened {heard}")
    calls = ground.calls.heard()
    if calls and not item.may_call:
        found.append(f"asked a stranger: {calls[:3]}")
    now = ground.listed()
    if now != ground.before:
        names = sorted(n for n in now.keys() | ground.before if now.get(n) != ground.before.get(n))
        found.append(f"wrote outside: {names[:5]}")
        ground.mend()
    ground.watch.heard()
    return found


def _said(result: Result) -> list[str]:
    """Return what is wrong with what a command printed and how it ended."""
    found = []
    if result.late:
        found.append("did not end")
    elif result.code < 0 or result.code == 70:
        found.append(f"ended by {result.code}")
    said = result.output + result.errors
    if match := _BUG.search(result.errors):
        at = max(0, match.start() - 200)
        found.append(f"says {result.errors[at:][:400].decode('utf-8', 'replace')}")
    if SECRET.encode() in said:
        found.append("shows a secret")
    text = _COLOUR.sub("", said.decode("utf-8", "replace"))
    if odd := _CONTROL.search(text):
        at = odd.start()
        found.append(f"prints {text[max(0, at - 30) : at + 30]!r}")
    errors = [line for line in result.errors.splitlines() if line.startswith(b"Error: ")]
    if len(errors) > 1:
        found.append(f"says {len(errors)} errors")
    if result.code and not errors and result.code not in (1, 130) and not result.errors:
        found.append(f"failed with {result.code} without a word")
    if any(len(line) > 4000 for line in errors):
        found.append(f"says an error of {max(map(len, errors))} bytes")
    return found


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
