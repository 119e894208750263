"""Frozen dataclasses, made in a fifth of the time.

Every command makes some 75 of them while its modules load. The standard library
compiles six methods for each, one by one, and that is a tenth of what a small diff
takes. Here only `__init__` is compiled, when it is first asked for; the other methods are the same
for all records and look their fields up. What comes out is a dataclass like any other: `fields`,
`replace`, `asdict`, matching, pickling and type checkers know it as one. Classes that
are not frozen and slotted, or have dataclasses above them, are made by the standard
library. See docs/design/013-start-up.md.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, FrozenInstanceError, fields
from dataclasses import dataclass as standard
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from dataclasses import dataclass as dataclass

__all__ = ["dataclass"]

_NO_FIELDS = ("Var", "KW_ONLY")
"""Stand in the types of what is no field: `ClassVar`, `InitVar` and `KW_ONLY`."""
_RECORD = {"frozen": True, "slots": True}


if not TYPE_CHECKING:

    def dataclass(cls=None, /, **options):
        """Make a dataclass; takes what `dataclasses.dataclass` takes."""

        def made(plain):
            above = any(hasattr(base, "__dataclass_fields__") for base in plain.__bases__)
            if options != _RECORD or above:
                return standard(**options)(plain)
            return _record(plain)

        return made if cls is None else made(cls)


@standard(frozen=True, slots=True)
class _Model:
    """The notes of the standard library on a frozen dataclass."""


def _record(plain: type) -> type:
    """Return a class with slots for its fields, and with the methods of a frozen dataclass."""
    own = vars(plain)
    types = own.get("__annotations__", {})
    told = bool(plain.__doc__) and not any(
        word in type_ for type_ in types.values() if isinstance(type_, str) for word in _NO_FIELDS
    )
    if told:
        # It would look for `ClassVar` and others in each text, by a pattern.
        plain.__annotations__ = dict.fromkeys(types, object)
    # It would refuse to freeze a class whose methods it does not write.
    cls: Any = standard(init=False, repr=False, eq=False, slots=True)(plain)
    cls.__dataclass_params__ = _Model.__dict__["__dataclass_params__"]
    members = fields(cls)
    if told:
        cls.__annotations__ = types
        for member in members:
            member.type = types[member.name]
    for member in members:
        if not member.init:
            raise TypeError(f"{cls.__qualname__}.{member.name}: records have no such fields")
    cls.__init__ = _Initializer(cls, members)
    cls.__setattr__, cls.__delattr__ = _refuse_to_set, _refuse_to_delete
    cls.__getstate__, cls.__setstate__ = _state, _set_state
    if "__repr__" not in own:
        cls.__repr__ = _representation
    compared = _values([member.name for member in members if member.compare])
    if "__eq__" not in own:
        cls.__eq__ = _equality(compared)
    if own.get("__hash__") is None:
        cls.__hash__ = lambda self: hash(compared(self))
    return cls  # type: ignore[no-any-return]


class _Initializer:
    """The place of a record's `__init__` until it is asked for; most are not, in one command."""

    __slots__ = ("_cls", "_members")

    def __init__(self, cls: Any, members: Sequence[Field[Any]]) -> None:
        self._cls = cls
        self._members = members

    def __get__(self, instance: object, owner: type) -> Any:
        made = _initializer(self._cls, self._members)
        self._cls.__init__ = made
        return made.__get__(instance, owner)


def _initializer(cls: Any, members: Sequence[Field[Any]]) -> FunctionType:
    """Compile `__init__`: with its parameters by name, as calls and errors show them."""
    known: dict[str, Any] = {"_MISSING": MISSING}
    parameters, lines = ["self"], []
    for member in sorted(members, key=lambda each: bool(each.kw_only)):
        name = value = member.name
        known[f"_set_{name}"] = getattr(cls, name).__set__
        if member.kw_only and "*" not in parameters:
            parameters.append("*")
        parameter = name
        if member.default is not MISSING:
            known[f"_default_{name}"] = member.default
            parameter += f"=_default_{name}"
        elif member.default_factory is not MISSING:
            known[f"_make_{name}"] = member.default_factory
            parameter += "=_MISSING"
            value = f"_make_{name}() if {name} is _MISSING else {name}"
        parameters.append(parameter)
        lines.append(f"_set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    text = "\n ".join((f"def __init__({', '.join(parameters)}):", *(lines or ["pass"])))
    exec(text, known)
    made: Any = known["__init__"]
    made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    made.__annotations__ = {member.name: member.type for member in members} | {"return": None}
    return made  # type: ignore[no-any-return]


def _values(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what takes the values of these fields from a record, as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda self: ()
    only = attrgetter(names[0])
    return lambda self: (only(self),)


def _equality(compared: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared(self) == compared(other)

    return __eq__


def _representation(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
