"""Records behave as the standard library's frozen dataclasses do."""

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
import types
from collections.abc import Callable
from dataclasses import field
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc import records

Maker = Callable[..., Any]
Item = TypeVar("Item")


def shapes(dataclass: Maker) -> dict[str, type]:
    """Return classes of every shape that is in use, made by one decorator."""

    @dataclass(frozen=True, slots=True)
    class Empty:
        """Nothing."""

    @dataclass(frozen=True, slots=True)
    class One:
        """One field."""

        number: float

    @dataclass(frozen=True, slots=True)
    class Many:
        """Fields of every kind."""

        name: str
        count: int = 3
        parts: list[int] = field(default_factory=list)
        hidden: int = field(default=1, repr=False)
        aside: int = field(default=2, compare=False)

        def __post_init__(self) -> None:
            if self.count < 0:
                raise ValueError("too few")

        @property
        def double(self) -> int:
            return self.count * 2

        @classmethod
        def of(cls, name: str) -> Any:
            return cls(name, 5)

    @dataclass(frozen=True, slots=True)
    class Own:
        """Methods of its own."""

        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and other.name.lower() == self.name.lower()

        def __hash__(self) -> int:
            return hash(self.name.lower())

        def __repr__(self) -> str:
            return f"<{self.name}>"

    @dataclass(frozen=True, slots=True)
    class Compared:
        """Its own equality, and no hash."""

        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Compared) and other.name == self.name

    @dataclass(frozen=True, slots=True)
    class Of(Generic[Item]):
        """A generic one."""

        item: Item

    @dataclass(frozen=True, slots=True)
    class Below(One):
        """One more field than its parent."""

        more: int = 0

    @dataclass(slots=True)
    class Changing:
        """Not frozen."""

        number: int

    @dataclass(frozen=True, slots=True)
    class ByName:
        """Fields that are given by their names alone, and one of these before another."""

        name: str
        source: str = field(kw_only=True)
        rest: tuple[str, ...] = ()
        count: int = field(default=3, kw_only=True)

    made = (Empty, One, Many, Own, Compared, Of, Below, Changing, ByName)
    return {each.__name__: each for each in made}


OURS = shapes(records.dataclass)
THEIRS = shapes(dataclasses.dataclass)
VALUES: dict[str, list[tuple[Any, ...]]] = {
    "Empty": [()],
    "One": [(1.0,), (2.0,), (float("inf"),)],
    "Many": [("a",), ("a", 4), ("b", 3, [1]), ("b", 3, [1], 7, 8), ("b", 3, [1], 7, 9)],
    "Own": [("x",), ("X",), ("y",)],
    "Compared": [("x",), ("y",)],
    "Of": [(1,), ("one",)],
    "Below": [(1.0,), (1.0, 2)],
    "Changing": [(1,), (2,)],
}
CASES = [(name, values) for name, each in VALUES.items() for values in each]


@pytest.mark.parametrize(("name", "values"), CASES)
def test_as_the_standard_library(name: str, values: tuple[Any, ...]) -> None:
    ours, theirs = OURS[name](*values), THEIRS[name](*values)
    assert repr(ours) == repr(theirs)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert copy.deepcopy(ours) == ours
    assert copy.copy(ours).__class__ is ours.__class__
    for other in VALUES[name]:
        assert (OURS[name](*other) == ours) == (THEIRS[name](*other) == theirs)
    assert ours != theirs
    assert not hasattr(ours, "__dict__")
    try:
        assert hash(theirs) == hash(ours)
    except TypeError:
        with pytest.raises(TypeError, match="unhashable"):
            hash(ours)


@pytest.mark.parametrize("name", OURS)
def test_what_is_known_of_the_class(name: str) -> None:
    ours, theirs = OURS[name], THEIRS[name]
    for fact in ("__match_args__", "__slots__", "__doc__", "__qualname__", "__module__"):
        assert getattr(ours, fact) == getattr(theirs, fact)
    assert repr(ours.__dataclass_params__) == repr(theirs.__dataclass_params__)  # type: ignore[attr-defined]
    shown = [inspect.signature(each).parameters for each in (ours, theirs)]
    assert list(shown[0]) == list(shown[1])
    for one, other in zip(shown[0].values(), shown[1].values(), strict=True):
        assert (one.annotation, one.kind) == (other.annotation, other.kind)
        assert (one.default is one.empty) == (other.default is other.empty)


def test_fields_that_are_given_by_name() -> None:
    for made in (OURS["ByName"], THEIRS["ByName"]):
        record = made("a", ("b",), source="s")
        assert (record.name, record.rest, record.source, record.count) == ("a", ("b",), "s", 3)
        assert dataclasses.replace(record, count=4) == made("a", ("b",), source="s", count=4)
        with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'source'"):
            made("a")
        with pytest.raises(TypeError, match="positional argument"):
            made("a", (), "s")


@pytest.mark.parametrize("name", [each for each in OURS if each not in ("Changing", "ByName")])
def test_nothing_can_be_changed(name: str) -> None:
    record = OURS[name](*VALUES[name][0])
    for attribute in [*(each.name for each in dataclasses.fields(record)), "other"]:
        with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
            setattr(record, attribute, 1)
        with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
            delattr(record, attribute)


@given(st.text(), st.integers(0), st.lists(st.integers()))
def test_replacing_and_matching(name: str, count: int, parts: list[int]) -> None:
    record = OURS["Many"](name, parts=parts)
    other = dataclasses.replace(record, count=count)
    assert (other.name, other.count, other.parts) == (name, count, parts)
    assert dataclasses.replace(other, count=record.count) == record
    match other:
        case object(name=a, count=b):
            assert (a, b) == (name, count)
        case _:
            pytest.fail("no match")


def test_lists_that_are_made_are_not_shared() -> None:
    one, other = OURS["Many"]("a"), OURS["Many"]("a")
    one.parts.append(1)
    assert other.parts == []


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        OURS["Many"]("a", -1)
    with pytest.raises(TypeError, match=r"Many.__init__\(\) missing 1 required .* 'name'"):
        OURS["Many"]()
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        OURS["Many"]("a", colour=1)
    with pytest.raises(ValueError, match="mutable default"):

        @records.dataclass(frozen=True, slots=True)
        class Shared:
            parts: list[int] = []  # noqa: RUF012

    with pytest.raises(TypeError, match="no such fields"):

        @records.dataclass(frozen=True, slots=True)
        class Later:
            part: int = field(init=False)


def test_what_is_made_later_is_seen_as_the_standard_librarys() -> None:
    for name in OURS:
        ours, theirs = OURS[name], THEIRS[name]
        assert [*inspect.signature(ours).parameters] == [*inspect.signature(theirs).parameters]

    @records.dataclass(frozen=True, slots=True)
    class Above:
        number: int

    class Under(Above):
        __slots__ = ("more",)

        def __init__(self, number: int) -> None:
            super().__init__(number)
            object.__setattr__(self, "more", number + 1)

    made = Under(3)
    assert (made.number, made.more) == (3, 4)  # type: ignore[attr-defined]
    assert Above(3).number == 3


@records.dataclass(frozen=True, slots=True)
class Sent:
    """One that can be pickled."""

    name: str
    parts: tuple[int, ...] = ()


def test_pickling() -> None:
    sent = Sent("a", (1, 2))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(sent, protocol)) == sent


@pytest.mark.thorough
def test_they_are_made_in_less_time() -> None:
    """Without that there is no reason for the module."""
    program = """
import sys, time
from {} import dataclass
begin = time.process_time()
for number in range(300):
    @dataclass(frozen=True, slots=True)
    class Record:
        "One."
        name: str
        count: int = 1
print(time.process_time() - begin)
"""
    spent = {
        module: min(
            float(subprocess.check_output([sys.executable, "-c", program.format(module)]))
            for _ in range(3)
        )
        for module in ("havasu_vc.records", "dataclasses")
    }
    assert spent["havasu_vc.records"] < spent["dataclasses"] / 2


TEXTS = '''
from __future__ import annotations
from dataclasses import KW_ONLY, InitVar
from typing import ClassVar
def made(dataclass):
    @dataclass(frozen=True, slots=True)
    class Plain:
        """Its types are texts."""
        name: str
        parts: tuple[int, ...] = ()
    @dataclass(frozen=True, slots=True)
    class Others:
        """What has a type is not all fields."""
        name: str
        limit: ClassVar[int] = 3
        _: KW_ONLY
        count: int = 0
    return Plain, Others
'''


def test_types_that_are_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("records_by_texts")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    known = vars(module)
    exec(TEXTS, known)
    for ours, theirs in zip(
        known["made"](records.dataclass), known["made"](dataclasses.dataclass), strict=True
    ):
        assert ours.__annotations__ == theirs.__annotations__
        facts = [
            [(each.name, each.type, each.kw_only) for each in dataclasses.fields(side)]
            for side in (ours, theirs)
        ]
        assert facts[0] == facts[1]
        assert repr(ours("a", **{facts[0][1][0]: 7})) == repr(theirs("a", **{facts[0][1][0]: 7}))
        assert inspect.signature(ours) == inspect.signature(theirs)
