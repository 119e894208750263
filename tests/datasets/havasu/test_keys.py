"""A key cache finds what a search through all keys finds; damage anywhere is noticed."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.havasu import keys as module
from havasu_vc.datasets.havasu.keys import (
    DamagedKeyCache,
    build_key_cache,
    open_key_cache,
    write_key_cache,
)

HASHES = st.integers(0, 9).map(lambda number: number * ((1 << 64) // 9) % (1 << 64))


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


def test_a_look_up_is_right_or_notices_the_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged key sends a search the wrong way; where it ends up tells."""
    monkeypatch.setattr(module, "_BLOCK", 4)
    path = tmp_path / "cache"
    keys = np.arange(1, 18, dtype=np.uint64) * np.uint64(1 << 59)
    needles = np.concatenate([keys, keys - np.uint64(1), [np.uint64(0), keys[-1] + np.uint64(9)]])
    write_key_cache(path, build_key_cache(keys, keys + np.uint64(7)))
    good = path.read_bytes()
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
    write_key_cache(tmp_path / "keys" / "cache", build_key_cache(keys, keys))

    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["cache"]
