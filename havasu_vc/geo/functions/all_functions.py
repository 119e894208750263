"""All functions by name, in the order of the reference page."""

import difflib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.geo.functions import geometries, measures, rasters
from havasu_vc.geo.functions.catalogue import Array, SqlFunction

__all__ = ["FUNCTIONS", "GROUPS", "compute", "function_named"]

GROUPS: Final[Mapping[str, tuple[SqlFunction, ...]]] = MappingProxyType(
    {
        "How two geometries lie": measures.RELATIONS,
        "Measures of a geometry": measures.MEASURES,
        "Geometries from geometries": geometries.FROM_GEOMETRIES,
        "Reading and writing geometries": geometries.ENCODINGS,
        "Rasters": rasters.FUNCTIONS,
    }
)
"""The functions by what they are about."""

FUNCTIONS: Final[Mapping[str, SqlFunction]] = MappingProxyType(
    {one.name: one for group in GROUPS.values() for one in group}
)
"""The functions by name."""

_BY_LOWER_NAME: Final = {name.lower(): name for name in FUNCTIONS}


def function_named(name: str) -> SqlFunction:
    """Return the function of a name, whatever its case."""
    found = _BY_LOWER_NAME.get(name.lower())
    if found is None:
        near = difflib.get_close_matches(name.lower(), _BY_LOWER_NAME, 3)
        raise InvalidArgumentError(
            f"there is no function {name!r}",
            hints=tuple(f"did you mean {_BY_LOWER_NAME[one]}?" for one in near),
        )
    return FUNCTIONS[found]


def compute(name: str, columns: Sequence[Array], *, lenient: bool) -> Array:
    """Compute the function of a name: what workers elsewhere call."""
    return FUNCTIONS[name](*columns, lenient=lenient)
