"""What whoever exports asks of GDAL: the layer's name and type, and options of its driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from havasu_vc.records import dataclass

__all__ = ["GdalForm"]


@dataclass(frozen=True, slots=True)
class GdalForm:
    """How GDAL is to write a layer, where that is said."""

    layer: str | None = None
    """The name of the layer; None for that of the file."""
    layer_options: Mapping[str, str] = field(default_factory=dict)
    """Layer creation options of the driver, as those of `ogr2ogr -lco`."""
    dataset_options: Mapping[str, str] = field(default_factory=dict)
    """Dataset creation options of the driver, as those of `ogr2ogr -dsco`."""
    geometry_type: str | None = None
    """The type that the layer is declared with, as `MULTIPOLYGON Z`."""
    drop_null: bool = False
    """Whether rows without geometry are left out."""
    drop_empty: bool = False
    """Whether rows with an empty geometry, or none, are left out."""
    key_as_fid: bool | None = None
    """Whether the key is what GDAL tells rows apart by; None where it can be."""
    key_as_field: bool | None = None
    """Whether the key is a column as well; None where it would be lost otherwise."""
