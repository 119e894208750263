"""Layers of QGIS that show the working copy: found by their file, opened, read anew."""

from __future__ import annotations

import os

from qgis.core import QgsMapLayer, QgsProject, QgsProviderRegistry, QgsVectorLayer

from .changes import table_name

__all__ = [
    "being_edited",
    "dataset_of",
    "layers_of",
    "open_dataset",
    "read_anew",
    "table_of",
    "with_unsaved_edits",
]


def same_file(one: str, other: str) -> bool:
    """Return whether two paths are of one file, however they are written."""
    return bool(one and other) and _plain(one) == _plain(other)


def _plain(path: str) -> str:
    return os.path.normcase(os.path.realpath(path))


def _parts(layer: QgsMapLayer) -> dict[str, str]:
    if not isinstance(layer, QgsVectorLayer) or layer.providerType() != "ogr":
        return {}
    return dict(QgsProviderRegistry.instance().decodeUri("ogr", layer.source()))


def layers_of(file: str) -> list[QgsVectorLayer]:
    """Return the layers of the project whose rows are in a file."""
    layers = QgsProject.instance().mapLayers().values()
    return [each for each in layers if same_file(str(_parts(each).get("path") or ""), file)]


def table_of(layer: QgsMapLayer) -> str:
    """Return the table that a layer shows; the file's only one where the layer names none."""
    name = _parts(layer).get("layerName")
    if not name and isinstance(layer, QgsVectorLayer):
        found = layer.dataProvider().subLayers() if layer.isValid() else []
        name = found[0].split("!!::!!")[1] if len(found) == 1 else ""
    return str(name or "")


def dataset_of(layer: QgsMapLayer, file: str, datasets: list[str]) -> str:
    """Return the dataset that a layer of the working copy shows; empty where it shows none."""
    if not same_file(str(_parts(layer).get("path") or ""), file):
        return ""
    table = table_of(layer)
    return next((each for each in datasets if table_name(each) == table), "")


def being_edited(file: str) -> list[str]:
    """Return the names of layers of a file that are in edit mode."""
    return [each.name() for each in layers_of(file) if each.isEditable()]


def with_unsaved_edits(file: str) -> list[str]:
    """Return the names of layers of a file with edits that are not saved to it."""
    return [each.name() for each in layers_of(file) if each.isModified()]


def read_anew(file: str) -> None:
    """Let the layers of a file show what it holds now, columns included."""
    for layer in layers_of(file):
        if layer.isEditable():
            continue
        layer.dataProvider().reloadData()
        layer.updateFields()
        layer.updateExtents()
        layer.triggerRepaint()


def open_dataset(file: str, dataset: str) -> QgsVectorLayer | None:
    """Return the project's layer of a dataset, added if there is none; None if it opens not."""
    table = table_name(dataset)
    for layer in layers_of(file):
        if table_of(layer) == table:
            return layer
    layer = QgsVectorLayer(f"{file}|layername={table}", dataset, "ogr")
    if not layer.isValid():
        return None
    QgsProject.instance().addMapLayer(layer)
    return layer
