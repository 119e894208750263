"""Where the objects of a pack are: found again, and told to git, whatever waits on disk."""

import subprocess
import tracemalloc
from collections.abc import Callable
from hashlib import sha1
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.store import places
from havasu_vc.store.places import ObjectPlaces
from tests.support.examples import examples

Places = dict[bytes, tuple[int, int]]


def told_by_git(index: bytes) -> Places:
    """Return what git reads of an index: offset and CRC by id."""
    shown = subprocess.run(["git", "show-index"], input=index, capture_output=True, check=True)
    lines = (line.split() for line in shown.stdout.decode().splitlines())
    return {
        bytes.fromhex(identity): (int(offset), int(check.strip("()"), 16))
        for offset, identity, check in lines
    }


def drawn(random: Random, count: int) -> Places:
    """Return places of ids; some differ in their last bytes alone, or are mostly zeros."""
    makers: list[Callable[[], bytes]] = [
        lambda: random.randbytes(20),
        lambda: b"\x80" * 18 + random.randbytes(2),
        lambda: bytes(19) + random.randbytes(1),
        lambda: random.randbytes(1) + bytes(19),
        lambda: b"\xff" * 4 + random.randbytes(1) * 16,
        lambda: random.choice([b"ab", b"ba"]) * 9 + random.randbytes(2),
    ]
    return {
        random.choice(makers)(): (
            random.choice([at * 40, (1 << 31) - 1 + at, (1 << 40) + at]),
            random.getrandbits(32),
        )
        for at in range(count)
    }


@examples(40)
@given(
    seed=st.integers(0, 1 << 32),
    count=st.integers(0, 400),
    recent=st.integers(1, 60),
    few=st.integers(0, 200),
    block=st.integers(1, 50),
    together=st.tuples(st.integers(2, 5), st.integers(2, 5)),
)
def test_places_are_found_and_told_to_git(
    seed: int, count: int, recent: int, few: int, block: int, together: tuple[int, int]
) -> None:
    random = Random(seed)
    model = drawn(random, count)
    absent = set(drawn(random, 60)) - model.keys()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("RECENT", recent), ("FEW", few), ("BLOCK", block), ("NEAR", 2)):
            patch.setattr(places, name, value)
        patch.setattr(places, "TOGETHER", together)
        found = ObjectPlaces()
        rest = list(model)
        while rest:
            some, rest = rest[: (size := random.randint(1, 50))], rest[size:]
            twice = [*some, *random.sample(list(model), 1)]
            known = {identity for identity in twice if found.find(identity) is not None}
            assert list(found.fresh(twice)) == [
                each for each in dict.fromkeys(twice) if each not in known
            ]
            offsets, checks = zip(*(model[identity] for identity in some), strict=True)
            if random.random() < 0.5:
                found.add_all(some, offsets, checks)
            else:
                for each in zip(some, offsets, checks, strict=True):
                    found.add(*each)

        assert len(found) == len(model)
        assert {each: found.find(each) for each in model} == {
            each: offset for each, (offset, _) in model.items()
        }
        assert [found.find(each) for each in absent] == [None] * len(absent)
        told = told_by_git(b"".join(found.index(bytes(20))))
        assert list(told.items()) == sorted(model.items())


@pytest.mark.parametrize("together", [0, 1, 100, 1_000])
def test_few_ids_are_in_memory_however_they_come(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dict of all ids, come singly or so many at once, would take twice what is allowed."""
    monkeypatch.setattr(places, "RECENT", 1_000)
    monkeypatch.setattr(places, "NEAR", 2)
    found = ObjectPlaces()
    tracemalloc.start()
    try:
        for start in range(0, 20_000, together or 1):
            ids = [sha1(b"%d" % at).digest() for at in range(start, start + (together or 1))]
            if together:
                found.add_all(ids, range(start, start + together), range(together))
            else:
                found.add(ids[0], start, 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 1_000_000
    assert len(found) == 20_000
    every = range(20_000)
    assert [found.find(sha1(b"%d" % at).digest()) for at in every] == list(every)


def test_ids_that_begin_alike_are_sorted() -> None:
    model = {bytes([1] * 19 + [last]): (last * 40, last) for last in reversed(range(50))}
    found = ObjectPlaces()
    found.add_all(list(model), *zip(*model.values(), strict=True))

    told = told_by_git(b"".join(found.index(bytes(20))))
    assert list(told.items()) == sorted(model.items())


@pytest.mark.parametrize("together", [(2, 2), (2, 9), (9, 9)])
def test_the_end_of_one_id_and_the_beginning_of_the_next_are_no_id(
    together: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "RECENT", 3)
    monkeypatch.setattr(places, "TOGETHER", together)
    low = [bytes(19) + b"\5", bytes(19) + b"\6", b"\0\5" + bytes(18)]  # stands at 18, then at 40
    high = [b"\xff" + bytes(18) + b"\xff", b"\xff" * 20]  # stands at 19, then at 20
    others = [bytes([at + 1]) * 20 for at in range(20)]
    ids = [*low, *high, *others]
    found = ObjectPlaces()
    for start in range(0, len(ids), 5):
        some = ids[start : start + 5]
        found.add_all(some, range(start, start + len(some)), [0] * len(some))

    assert [found.find(each) for each in ids] == list(range(len(ids)))
    assert found.find(b"\0\6" + bytes(18)) is None


@pytest.mark.parametrize("seed", range(3))
def test_what_came_before_the_bitmap_is_found_after_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "RECENT", 10)
    monkeypatch.setattr(places, "FEW", 25)
    random = Random(seed)
    ids = [random.randbytes(20) for _ in range(30)]
    found = ObjectPlaces()
    for at, identity in enumerate(ids):
        found.add(identity, at, 0)

    assert [found.find(identity) for identity in ids] == list(range(30))


def test_memory_does_not_grow_with_objects() -> None:
    """What a million more objects take is a fan-out, not 32 bytes for each."""
    import numpy as np

    random = np.random.default_rng(1)
    found, peaks = ObjectPlaces(), []
    tracemalloc.start()
    try:
        for _ in range(2):
            tracemalloc.reset_peak()
            for start in range(0, 400_000, 4_000):
                ids = random.bytes(80_000)
                found.add_all(
                    [ids[at : at + 20] for at in range(0, 80_000, 20)],
                    range(start, start + 4_000),
                    range(4_000),
                )
            peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()

    assert peaks[1] < 1.15 * peaks[0]
    assert max(peaks) < 24_000_000
