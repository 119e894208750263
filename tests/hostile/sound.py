"""A sound scene: what commands take on it, and that they do what they are for."""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from tests.hostile.commands import COMMANDS, run
from tests.hostile.rule import Normal, normal, place_copy
from tests.hostile.scene import Ground, Scene, place, rows
from tests.support.rasters import write_image

__all__ = ["usual"]


def usual(ground: Ground, names: Set[str]) -> dict[str, Normal]:
    """Run commands on sound things, and return what each takes."""
    import pyarrow.parquet as pq

    place(ground)
    scene = Scene(ground, ground.folder)
    pq.write_table(rows(2), ground.folder / "new.parquet")
    image = write_image(ground.folder / "image.tif", np.ones((1, 8, 8), np.uint8))
    ground.run(("import", str(image), "pictures", "--out-db"), folder=scene.repo)
    kept = ground.base / "kept"
    place_copy(ground, kept)
    found = {}
    for name, command in COMMANDS.items():
        if name not in names:
            continue
        if command.writes:
            place(ground, kept)
        scene.source = ground.folder / "new.parquet"
        results = run(scene, name)
        wrong = [result.arguments for result in results if b"--help` tells" in result.errors]
        assert not wrong, f"no such command lines: {wrong}"
        found[name] = normal(results)
    return found
