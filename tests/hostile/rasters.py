"""Rasters whose pixels are said to be in files, or on servers, of others."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile.items import Item
from tests.hostile.scene import Scene
from tests.support.rasters import write_image

__all__ = ["ITEMS"]


def _naming(pattern: str) -> Callable[[Scene], None]:
    """A committed table of a raster that names another place for its pixels than it came with."""

    def make(scene: Scene) -> None:
        image = write_image(scene.folder / "image.tif", np.ones((1, 8, 8), np.uint8))
        done = scene.ground.run(("import", str(image), "pictures", "--out-db"), folder=scene.repo)
        assert done.code == 0, done.errors
        os.rename(image, scene.outside / "secret.tif")
        exported = scene.folder / "pictures.parquet"
        done = scene.ground.run(("export", "pictures", str(exported)), folder=scene.repo)
        assert done.code == 0, done.errors
        table = pq.read_table(exported)
        place = pattern.format(out=scene.outside, url=scene.url)
        changed = _replaced(table, str(image), place)
        pq.write_table(changed, exported)
        scene.ground.run(("import", str(exported), "pictures", "--replace"), folder=scene.repo)
        os.rename(scene.outside / "secret.tif", image)
        scene.source = exported
        scene.options = ("--no-primary-key",)

    return make


def _replaced(table: pa.Table, old: str, new: str) -> pa.Table:
    def changed(value: object) -> object:
        if isinstance(value, dict):
            return {name: changed(each) for name, each in value.items()}
        if isinstance(value, list):
            return [changed(each) for each in value]
        if isinstance(value, str) and old in value:
            return new
        if isinstance(value, bytes) and old.encode() in value:
            return new.encode()
        return value

    return pa.Table.from_pylist([changed(row) for row in table.to_pylist()], schema=table.schema)


_READ = "pictures diff review show validate fsck import"

ITEMS = [
    Item("raster", f"pixels {what}", _naming(pattern), _READ)
    for what, pattern in {
        "in a file of others": "file://{out}/secret.txt",
        "in a path of others": "{out}/secret.txt",
        "by http": "{url}/secret.tif",
        "by GDAL over http": "/vsicurl/{url}/secret.tif",
        "in a zip": "/vsizip/{out}/secret.txt/x.tif",
        "of a device": "file:///dev/zero",
        "by a program": "/vsistdin/",
        "in colours": "file:///\x1b[31m\u202e.tif",
    }.items()
]
