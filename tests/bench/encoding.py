"""Cases: geometries to and from their encodings, and manifests of many files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.bench.cases import Figure, case, counted
from tests.bench.scratch import Scratch

SPEED = 0.7
"""How fast we must be, as a part of the speed of the bare call."""


def _job(scratch: Scratch, name: str, count: int) -> dict[str, Any]:
    sizes = scratch.sizes
    arguments = (name, str(count), str(sizes.runs))
    return scratch.python("-m", "tests.bench.encoding_jobs", *arguments).report


@case("geometries")
def geometries(scratch: Scratch) -> Iterator[Figure]:
    """Columns of points decoded, encoded and measured, against the bare calls of shapely."""
    rows = scratch.sizes.usual
    for name, took in _job(scratch, "geometries", rows).items():
        ours, theirs = float(took["ours"]), float(took["theirs"])
        note = f"{ours:.4f} s CPU, shapely {theirs:.4f} s"
        yield Figure(
            f"{name}, {counted(rows)} points, time against shapely's",
            ours / theirs,
            "x",
            round(1 / SPEED, 2),
            note,
        )


@case("manifests")
def manifests(scratch: Scratch) -> Iterator[Figure]:
    """One manifest with an entry for each of very many files."""
    entries = scratch.sizes.small
    found = _job(scratch, "manifests", entries)
    note = f"{found['bytes'] / 1e6:.1f} MB"
    for what, asked in (("write", 4.0), ("read", 3.0)):
        name = f"{what} a manifest of {counted(entries)} entries"
        yield Figure(name, float(found[what]), "s CPU", asked, note)
