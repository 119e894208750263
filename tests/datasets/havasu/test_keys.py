"""A key cache finds what a search through all keys finds; damage anywhere is noticed."""

import hashlib
import struct
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from havasu_vc.datasets.havasu import keys as module
from havasu_vc.datasets.havasu.keys import (
    DamagedKeyCache,
    Found,
    KeyCache,
    LastLookUp,
    build_key_cache,
    key_cache_path,
    open_key_cache,
    write_key_cache,
)
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Geometry, Primitive, Struct

HASHES = st.integers(0, 9).map(lambda number: number * ((1 << 64) // 9) % (1 << 64))


@example(keys=[7, 5, 7, 9], needles=[5, 7])
@given(keys=st.lists(HASHES, max_size=30), needles=st.lists(HASHES, max_size=10))
def test_it_finds_every_row_with_a_key(
    keys: list[int], needles: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = np.arange(len(keys), dtype=np.uint64) + np.uint64(1000)
    cache = build_key_cache(np.array(keys, np.uint64), rows)
    path = tmp_path_factory.mktemp("keys") / "cache"
    write_key_cache(path, cache)
    mapped = open_key_cache(path)
    assert mapped is not None

    wanted = sorted(
        (needle, place)
        for needle, key in enumerate(needles)
        for place, k in enumerate(keys)
        if k == key
    )
    for found in (each.find(np.array(needles, np.uint64)) for each in (cache, mapped)):
        pairs = zip(found.needles.tolist(), found.positions.tolist(), strict=True)
        assert sorted(pairs) == wanted
        assert (found.rows == rows[found.positions]).all()
        assert (np.diff(found.positions) >= 0).all()
    mapped.check_all()


@example(keys=[7, 5, 7, 9], asked=[([5, 7, 7], 0), ([7], 0), ([7, 9], 0), ([5], 1), ([7], 0)])
@given(
    keys=st.lists(HASHES, max_size=30),
    asked=st.lists(
        st.tuples(st.lists(HASHES, max_size=6), st.integers(0, 1)), min_size=2, max_size=5
    ),
)
def test_what_was_looked_up_last_is_found_again(
    keys: list[int], asked: list[tuple[list[int], int]]
) -> None:
    """Of two files, whatever is asked between; what was asked last is not looked up again."""
    rows = np.arange(len(keys), dtype=np.uint64) + np.uint64(1000)
    caches = [build_key_cache(np.array(keys[k::2], np.uint64), rows[k::2]) for k in range(2)]
    last, looked = LastLookUp(), list[str]()
    for each, number in asked:
        needles = np.array(each, np.uint64)

        def look(needles: Hashes, cache: KeyCache = caches[number]) -> Found:
            looked.append("")
            return cache.find(needles)

        before = len(looked)
        found = [last.find(str(number), needles, look) for _ in range(2)]
        assert len(looked) <= before + 1
        part = needles[::2].copy()
        for some, wanted in ((needles, found[0]), (needles, found[1]), (part, None)):
            got = last.find(str(number), some, look) if wanted is None else wanted
            right = caches[number].find(some)
            lines = [
                sorted(zip(x.needles.tolist(), x.positions.tolist(), x.rows.tolist(), strict=True))
                for x in (got, right)
            ]
            assert lines[0] == lines[1]
            assert (np.diff(got.positions) >= 0).all()
        assert len(looked) <= before + 1


def test_damage_at_every_place_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK", 4)
    path = tmp_path / "cache"
    keys = np.arange(10, dtype=np.uint64) * np.uint64(1 << 59)
    write_key_cache(path, build_key_cache(keys, keys + np.uint64(7)))
    good = path.read_bytes()
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 0x55
        path.write_bytes(bad)
        cache = open_key_cache(path)
        if cache is None:
            continue
        with pytest.raises(DamagedKeyCache):
            cache.check_all()
        # A look-up of all keys rests on every block but those of checks of other arrays.
        with pytest.raises(DamagedKeyCache):
            cache.find(keys)


@pytest.mark.few(1)
@pytest.mark.parametrize("count", [16, 17])
def test_a_look_up_is_right_or_notices_the_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """A damaged key sends a search the wrong way; where it ends up tells."""
    monkeypatch.setattr(module, "_BLOCK", 4)
    path = tmp_path / "cache"
    keys = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(1 << 59)
    needles = np.concatenate([keys, keys - np.uint64(1), [np.uint64(0), keys[-1] + np.uint64(9)]])
    write_key_cache(path, build_key_cache(keys, keys + np.uint64(7)))
    good = path.read_bytes()
    sound = open_key_cache(path)
    assert sound is not None
    assert sound.find(needles).positions.tolist() == list(range(count))
    noticed = 0
    for at in range(16, 16 + 8 * len(keys)):
        for flip in (0x80, 0x55):
            bad = bytearray(good)
            bad[at] ^= flip
            path.write_bytes(bad)
            cache = open_key_cache(path)
            assert cache is not None
            for needle in needles:
                try:
                    found = cache.find(np.array([needle], np.uint64)).positions.tolist()
                except DamagedKeyCache:
                    noticed += 1
                else:
                    assert found == np.flatnonzero(keys == needle).tolist()
    assert noticed


@pytest.mark.parametrize("count", [0, 1, 3, 4, 9, 16])
def test_the_least_are_those_below_a_limit_or_the_damage_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(module, "_BLOCK", 4)
    path = tmp_path / "cache"
    keys = np.arange(16, dtype=np.uint64)[::-1] * np.uint64(1 << 59)
    write_key_cache(path, build_key_cache(keys, keys + np.uint64(7)))
    limit = count << 59
    good = path.read_bytes()

    def least() -> tuple[list[int], list[int]]:
        cache = open_key_cache(path)
        assert cache is not None
        found, positions = cache.least(limit)
        return found.tolist(), positions.tolist()

    wanted = ([number << 59 for number in range(count)], [15 - number for number in range(count)])
    assert least() == wanted
    for at in range(16, 16 + 8 * 16):
        bad = bytearray(good)
        bad[at] ^= 0x80
        path.write_bytes(bad)
        with suppress(DamagedKeyCache):
            assert least() == wanted


def test_a_file_is_as_its_module_says(tmp_path: Path) -> None:
    keys = np.arange(1100, dtype=np.uint64) * np.uint64(3)
    rows = keys + np.uint64(9)
    order = np.random.default_rng(1).permutation(1100)
    write_key_cache(tmp_path / "cache", build_key_cache(keys[order], rows[order]))

    positions = np.argsort(order).astype("<u4")
    arrays = [keys.astype("<u8").tobytes(), rows.astype("<u8").tobytes(), positions.tobytes()]
    wanted = b"havasuk1" + struct.pack("<Q", 1100) + b"".join(arrays)
    for array, width in zip(arrays, (8, 8, 4), strict=True):
        for start in range(0, len(array), 512 * width):
            wanted += struct.pack("<I", zlib.crc32(array[start : start + 512 * width]))
    assert (tmp_path / "cache").read_bytes() == wanted


def test_a_cache_is_of_the_columns_that_are_known() -> None:
    key = Field(1, "id", Primitive.LONG, required=True)
    inside = Field(2, "s", Struct((Field(3, "x", Primitive.INT),)))
    declared = Field(4, "g", Primitive.BINARY, extra=((module.DECLARED, "true"),))
    schema = Schema((key, inside, declared), (1,))

    path = key_cache_path(Path("keys"), "f" * 64, schema)
    told = {
        "1,0,1,2,3,4b": path,
        "0,1,2,3,4b": key_cache_path(path.parent, "f" * 64, replace(schema, identifier_ids=())),
        "1,0,1,2,3,4g": key_cache_path(
            path.parent,
            "f" * 64,
            Schema((key, inside, replace(declared, geometry=Geometry())), (1,)),
        ),
    }

    for text, found in told.items():
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        assert found == Path("keys") / f"{'f' * 64}-{name}"


@pytest.mark.parametrize("length", [0, 7, 15, 16, 100, -1])
def test_a_cache_of_another_length_is_none(tmp_path: Path, length: int) -> None:
    path = tmp_path / "cache"
    keys = np.arange(10, dtype=np.uint64)
    write_key_cache(path, build_key_cache(keys, keys))
    path.write_bytes(path.read_bytes()[:length])

    assert open_key_cache(path) is None


def test_no_cache_is_none(tmp_path: Path) -> None:
    assert open_key_cache(tmp_path / "none") is None


def test_writing_leaves_one_file(tmp_path: Path) -> None:
    keys = np.arange(3, dtype=np.uint64)
    folder = tmp_path / "havasu" / "keys"
    write_key_cache(folder / "cache", build_key_cache(keys, keys))

    assert [path.name for path in folder.iterdir()] == ["cache"]


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    keys = np.arange(3, dtype=np.uint64)
    (tmp_path / "cache" / "in the way").mkdir(parents=True)

    with pytest.raises(OSError):
        write_key_cache(tmp_path / "cache", build_key_cache(keys, keys))

    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
