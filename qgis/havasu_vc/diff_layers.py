"""Changed rows as layers in memory: what came, what went, and rows before and after a change.

Rows are read in a task of QGIS, so that a large diff holds nothing up; the layers are put into the
project by the main thread. A dataset with geometries of several kinds gets layers for each.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from qgis.core import (
    Qgis,
    QgsCoordinateReferenceSystem,
    QgsFeature,
    QgsField,
    QgsFields,
    QgsFillSymbol,
    QgsGeometry,
    QgsLayerTreeGroup,
    QgsLineSymbol,
    QgsMarkerSymbol,
    QgsProject,
    QgsSingleSymbolRenderer,
    QgsSymbol,
    QgsTask,
    QgsVectorLayer,
    QgsWkbTypes,
)
from qgis.PyQt.QtCore import QByteArray

from .changes import Column, DatasetChanges, RowChange, read_changes
from .words import tr

__all__ = ["DiffTask", "add_layers", "field_of", "remove_layers"]

GROUP = "havasu_vc/changes"
"""The property by which groups of changes are known again."""
COLORS = {"insert": "#1b9e3e", "before": "#c2a5cf", "after": "#e67e22", "delete": "#d7191c"}
ORDER = ("before", "delete", "insert", "after")
"""From the lowest layer to the highest."""
NOT_SPATIAL = "NoGeometry"


@dataclass
class Half:
    """The rows of one layer."""

    dataset: str
    half: str
    kind: str
    crs: str
    columns: list[Column]
    features: list[QgsFeature] = field(default_factory=list)


def titles() -> dict[str, str]:
    """Return what halves of changes are called."""
    return {
        "insert": tr("inserted"),
        "delete": tr("deleted"),
        "before": tr("before"),
        "after": tr("after"),
    }


def field_of(name: str, type_: str) -> QgsField:
    """Return a field for values of a schema's type, whichever Qt this is."""
    kind = {"integer": "LongLong", "float": "Double", "boolean": "Bool"}.get(type_, "String")
    if Qgis.QGIS_VERSION_INT >= 33800:
        from qgis.PyQt.QtCore import QMetaType

        return QgsField(name, getattr(QMetaType.Type, "QString" if kind == "String" else kind))
    from qgis.PyQt.QtCore import QVariant

    return QgsField(name, getattr(QVariant, kind))


def fields_of(columns: list[Column]) -> QgsFields:
    """Return the fields of a layer of changes."""
    fields = QgsFields()
    for each in columns:
        if each.type != "geometry":
            fields.append(field_of(each.name, each.type))
    fields.append(field_of("changed columns", "text"))
    return fields


def _value(value: Any, type_: str) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        numeric = type_ in ("integer", "float", "boolean")
        return value if value is None or numeric else str(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _geometry(value: Any) -> QgsGeometry | None:
    if not isinstance(value, str):
        return None
    geometry = QgsGeometry()
    geometry.fromWkb(QByteArray(bytes.fromhex(value)))
    return None if geometry.isNull() else geometry


def _type_name(geometry: QgsGeometry | None) -> str:
    """Return the type of a layer that can hold a geometry, one of many parts."""
    if geometry is None:
        return NOT_SPATIAL
    flat = QgsWkbTypes.multiType(QgsWkbTypes.linearType(QgsWkbTypes.flatType(geometry.wkbType())))
    name = QgsWkbTypes.displayString(flat)
    return name if name in ("MultiPoint", "MultiLineString", "MultiPolygon") else NOT_SPATIAL


def halves_of(changes: DatasetChanges, crs: str = "") -> list[Half]:
    """Return the layers that a dataset's changes make."""
    found: dict[tuple[str, str], Half] = {}
    fields = fields_of(changes.columns)
    shape = changes.geometry
    told = crs or (shape.crs if shape is not None else "")

    def put(half: str, row: dict[str, Any], change: RowChange) -> None:
        geometry = _geometry(row.get(shape.name)) if shape is not None else None
        kind = _type_name(geometry)
        key = half, kind
        if key not in found:
            found[key] = Half(changes.path, half, kind, told, changes.columns)
        feature = QgsFeature(fields)
        values = [
            _value(row.get(each.name), each.type)
            for each in changes.columns
            if each.type != "geometry"
        ]
        changed = "" if change.kind != "update" else ", ".join(change.columns)
        feature.setAttributes([*values, changed])
        if geometry is not None and kind != NOT_SPATIAL:
            geometry.convertToMultiType()
            feature.setGeometry(geometry)
        found[key].features.append(feature)

    for change in changes.rows:
        if change.kind == "update":
            put("before", change.old or {}, change)
            put("after", change.new or {}, change)
        else:
            put(change.kind, (change.new or change.old) or {}, change)
    return sorted(found.values(), key=lambda each: ORDER.index(each.half))


class DiffTask(QgsTask):
    """Reads the changed rows that a command printed, off the main thread."""

    def __init__(self, printed: str, most: int, done: Callable[[DiffTask], None]) -> None:
        super().__init__(tr("Reading changes"), QgsTask.Flag.CanCancel)
        self._printed = printed
        self._most = most
        self._done = done
        self.changes: dict[str, DatasetChanges] = {}
        self.halves: list[Half] = []
        self.whole = True
        self.error = ""

    def run(self) -> bool:
        """Read; QGIS calls this in a thread of its own."""
        try:
            lines = iter(self._printed.split("\n"))
            self.changes, self.whole = read_changes(lines, self._most)
            for number, each in enumerate(self.changes.values()):
                if self.isCanceled():
                    return False
                self.halves += halves_of(each)
                self.setProgress(100 * (number + 1) / len(self.changes))
        except (ValueError, KeyError, TypeError) as error:
            self.error = str(error)
            return False
        return True

    def finished(self, result: bool) -> None:
        """Hand over what was read; QGIS calls this in the main thread."""
        if result or self.error:
            self._done(self)


def _symbol(half: str, kind: str) -> QgsSymbol | None:
    """Return how a half is drawn: before and after differ in more than colour."""
    color = COLORS[half]
    if kind == "MultiPoint":
        shape = {"before": "circle", "after": "circle", "insert": "triangle", "delete": "cross2"}
        size = "5" if half == "before" else "3.4"
        outline = color if half == "delete" else "#ffffff"
        return QgsMarkerSymbol.createSimple(
            {
                "name": shape[half],
                "color": color,
                "size": size,
                "outline_color": outline,
                "outline_width": "0.7" if half == "delete" else "0.3",
            }
        )
    dashed = "dash" if half in ("before", "delete") else "solid"
    if kind == "MultiLineString":
        width = "1.6" if half == "before" else "0.9"
        return QgsLineSymbol.createSimple(
            {"line_color": color, "line_width": width, "line_style": dashed}
        )
    if kind == "MultiPolygon":
        pattern = {"before": "no", "after": "f_diagonal", "delete": "b_diagonal"}
        return QgsFillSymbol.createSimple(
            {
                "color": color,
                "style": pattern.get(half, "dense5"),
                "outline_color": color,
                "outline_width": "0.8",
                "outline_style": dashed,
            }
        )
    return None


def _layer(half: Half) -> QgsVectorLayer:
    crs = QgsCoordinateReferenceSystem(half.crs) if half.crs else QgsCoordinateReferenceSystem()
    title = f"{half.dataset} – {titles()[half.half]} ({len(half.features):,})"
    layer = QgsVectorLayer(half.kind, title, "memory")
    if half.kind != NOT_SPATIAL:
        layer.setCrs(crs)
    provider = layer.dataProvider()
    provider.addAttributes(list(fields_of(half.columns)))
    layer.updateFields()
    provider.addFeatures(half.features)
    layer.updateExtents()
    if (symbol := _symbol(half.half, half.kind)) is not None:
        layer.setRenderer(QgsSingleSymbolRenderer(symbol))
    layer.setReadOnly(True)
    return layer


def unknown_crs(task: DiffTask) -> bool:
    """Return whether a dataset's reference system is one that QGIS does not know by its name."""
    names = {each.crs for each in task.halves if each.crs}
    return any(not QgsCoordinateReferenceSystem(name).isValid() for name in names)


def add_layers(task: DiffTask, title: str, crs: str = "") -> list[QgsVectorLayer]:
    """Put a group of the changes on top of the project's layers, instead of one of its title."""
    root = QgsProject.instance().layerTreeRoot()
    remove_layers(title)
    group = root.insertGroup(0, title)
    group.setCustomProperty(GROUP, title)
    made = []
    for half in reversed(task.halves):
        if crs and half.crs:
            half.crs = crs
        layer = _layer(half)
        QgsProject.instance().addMapLayer(layer, False)
        group.addLayer(layer)
        made.append(layer)
    return made


def remove_layers(title: str = "") -> None:
    """Take groups of changes out of the project: that of a title, or all."""
    root = QgsProject.instance().layerTreeRoot()
    for group in list(root.children()):
        if not isinstance(group, QgsLayerTreeGroup):
            continue
        mark = group.customProperty(GROUP)
        if mark is None or (title and mark != title):
            continue
        ids = [each.layerId() for each in group.findLayers()]
        root.removeChildNode(group)
        QgsProject.instance().removeMapLayers(ids)
