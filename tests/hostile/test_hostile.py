"""Every command on every hostile thing: no crash, no code run, nothing outside touched or shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from pathlib import Path

import pytest

from tests.hostile import documents, edited, files, lying, rasters, repositories
from tests.hostile.commands import COMMANDS
from tests.hostile.items import Item
from tests.hostile.rule import Normal, broken
from tests.hostile.scene import Ground, ground
from tests.hostile.sound import usual

ITEMS = [
    *repositories.ITEMS,
    *documents.ITEMS,
    *files.ITEMS,
    *edited.ITEMS,
    *lying.ITEMS,
    *rasters.ITEMS,
]

pytestmark = pytest.mark.xdist_group("hostile")


@pytest.fixture(scope="session")
def jail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ground(tmp_path_factory.mktemp("hostile")) as made:
        yield made


@pytest.fixture(scope="session")
def normal(jail: Ground, request: pytest.FixtureRequest) -> dict[str, Normal]:
    return usual(jail, asked_for(request.session.items))


def asked_for(tests: list[pytest.Item]) -> Set[str]:
    """Return the commands that the tests of this module run: in a quick run, some of them."""
    names = set[str]()
    for test in tests:
        if isinstance(test, pytest.Function) and test.path == Path(__file__):
            if test.originalname == "test_the_most_telling_command":
                item = test.callspec.params["item"]
                assert isinstance(item, Item)
                names.update(item.commands.split()[:1])
            else:
                return COMMANDS.keys()
    return names


FAST = 3
"""Items of each kind that `make test-ci` looks at, of which `make test` takes the first."""


def _marks(item: Item) -> list[pytest.MarkDecorator]:
    alike = [other for other in ITEMS if other.kind == item.kind and not other.slow]
    if item not in alike[:FAST]:
        return [pytest.mark.slow]
    return [] if item is alike[0] else [pytest.mark.thorough]


@pytest.mark.parametrize(
    "item", [pytest.param(item, id=item.id, marks=_marks(item)) for item in ITEMS]
)
def test_the_most_telling_command(jail: Ground, normal: dict[str, Normal], item: Item) -> None:
    assert broken(jail, item, item.commands.split()[:1], normal, most=1) == []


@pytest.mark.slow
@pytest.mark.parametrize("item", [pytest.param(item, id=item.id) for item in ITEMS])
def test_every_telling_command(jail: Ground, normal: dict[str, Normal], item: Item) -> None:
    assert broken(jail, item, item.commands.split(), normal) == []


@pytest.mark.slow
@pytest.mark.parametrize("item", [pytest.param(item, id=item.id) for item in ITEMS])
def test_every_command(jail: Ground, normal: dict[str, Normal], item: Item) -> None:
    others = [name for name in COMMANDS if name not in item.commands.split()]
    assert broken(jail, item, others, normal) == []


def test_items_are_many_and_each_of_its_own() -> None:
    names = Counter(item.id for item in ITEMS)
    assert len(names) == len(ITEMS) >= 400
    assert {name for item in ITEMS for name in item.commands.split()} <= COMMANDS.keys()


@pytest.mark.thorough
def test_sound_things_do_what_they_are_for(jail: Ground, normal: dict[str, Normal]) -> None:
    """What the limits are measured by: commands that did their work."""
    assert normal.keys() == COMMANDS.keys()
