"""Arrow's compute functions, each made when it is first asked for.

`pyarrow.compute` writes a wrapper with documentation for all of Arrow's 300 functions
when it is imported, which takes longer than a diff of a thousand rows. These are the
same functions, by the same names and with the same arguments, without that. Modules
that every command loads use them as `pc`; they call `pc.cast(values, type)` and
`pc.take(values, indices)`, as the methods of those names import `pyarrow.compute`.
See docs/design/013-start-up.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

__all__ = [
    "call_function",
    "cast",
    "dictionary_encode",
    "fill_null",
    "filter",
    "struct_field",
    "take",
]

try:
    # Where `pyarrow.compute` has them from.
    _arrow: Any = import_module("pyarrow._compute")
except ImportError:
    _arrow = import_module("pyarrow.compute")

call_function: Callable[..., Any] = _arrow.call_function
"""Call a function of Arrow by its name, with a list of values and its options."""

_TYPES: dict[type, pa.DataType] = {
    type(None): pa.null(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
}
_PYTHON_WORDS = {"and_": "and", "or_": "or"}
"""Functions that cannot have their own name in Python."""


def cast(values: Any, target: pa.DataType, *, safe: bool = True) -> Any:
    """Return values as another type."""
    options = _arrow.CastOptions.safe if safe else _arrow.CastOptions.unsafe
    return call_function("cast", [values], options(target))


def take(values: Any, indices: Any) -> Any:
    """Return the values, or the rows, at these places."""
    return call_function("take", [values, indices], _arrow.TakeOptions())


def filter(values: Any, chosen: Any) -> Any:
    """Return the values, or the rows, that are chosen."""
    return call_function("filter", [values, chosen], _arrow.FilterOptions())


def fill_null(values: Any, value: Any) -> Any:
    """Return values with another in the place of null."""
    if not isinstance(value, pa.Scalar | pa.Array | pa.ChunkedArray):
        value = pa.scalar(value, type=values.type)
    elif value.type != values.type:
        value = cast(value, values.type)
    return call_function("coalesce", [values, value])


def struct_field(values: Any, name: str) -> Any:
    """Return a field of structs; Arrow would take a name that begins with `.` for a path."""
    place = values.type.get_field_index(name)
    return call_function("struct_field", [values], _arrow.StructFieldOptions([place]))


def dictionary_encode(values: Any) -> Any:
    """Return values as the different ones and which of them stands where."""
    return call_function("dictionary_encode", [values], _arrow.DictionaryEncodeOptions("mask"))


def __getattr__(name: str) -> Callable[..., Any]:
    """Make the function of a name; its options are keywords, or follow its values."""
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        function = _arrow.function_registry().get_function(_PYTHON_WORDS.get(name, name))
    except KeyError:
        raise AttributeError(f"Arrow has no function {name!r}") from None
    made = _callable(function)
    globals()[name] = made
    return made


def _scalar(value: Any) -> Any:
    """Return a value of Python's as Arrow takes it.

    Without a type Arrow finds one out, for which it loads `dateutil` and looks for intervals.
    """
    known = _TYPES.get(type(value))
    if known is None or (known == _TYPES[int] and not -(1 << 63) <= value < 1 << 63):
        return value
    return pa.scalar(value, known)


def _callable(function: Any) -> Callable[..., Any]:
    kind = function._doc.options_class
    arity: Any = function.arity

    def called(*values: Any, **options: Any) -> Any:
        following: Sequence[Any] = ()
        if arity is not Ellipsis:
            values, following = values[:arity], values[arity:]
        given = getattr(_arrow, kind)(*following, **options) if following or options else None
        return function.call([*map(_scalar, values)], given, None)

    return called
