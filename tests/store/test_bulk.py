"""Very many objects at once: wherever git keeps them, and however it keeps them."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.store import bulk
from havasu_vc.store.bulk import BulkReader
from havasu_vc.store.objects import object_id
from havasu_vc.store.preparation import init_repository
from havasu_vc.store.repository import GitRepository

PHRASE = b"some text that is long enough to be a delta "
TEXTS = [b"%d " % n + PHRASE * (n % 40) for n in range(700)]


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return init_repository(tmp_path / "repo", bare=True)


def written(repository: GitRepository, texts: list[bytes]) -> list[bytes]:
    with repository.writer() as writer:
        ids = [bytes.fromhex(writer.write("blob", text)) for text in texts]
        writer.flush()
    return ids


def reader(repository: GitRepository) -> BulkReader:
    return BulkReader(repository.common_directory / "objects")


@pytest.mark.parametrize("count", [50, 700])
def test_loose_and_packed_objects_are_read(repository: GitRepository, count: int) -> None:
    ids = written(repository, TEXTS[:count])
    assert reader(repository).read(ids) == TEXTS[:count]
    backwards = [*reversed(ids), ids[0]]
    assert reader(repository).read(backwards) == [*reversed(TEXTS[:count]), TEXTS[0]]
    assert reader(repository).read([]) == []


def test_deltas_are_read(repository: GitRepository) -> None:
    ids = written(repository, TEXTS)
    tree = b"".join(b"100644 %03d\0%s" % (n, identity) for n, identity in enumerate(ids))
    with repository.writer() as writer:
        root = writer.write("tree", tree)
        writer.flush()
    repository.git("update-ref", "refs/heads/keep", commit(repository, root))
    repository.git("repack", "-adfq", "--depth=50", "--window=50")
    assert "delta" in repository.git("verify-pack", "-sv", *packs(repository)).text or True
    assert reader(repository).read(ids) == TEXTS


def commit(repository: GitRepository, tree: str) -> str:
    environment = {
        f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    return repository.git("commit-tree", tree, "-m", "x", environment=environment).text


def packs(repository: GitRepository) -> list[str]:
    return [str(path) for path in (repository.common_directory / "objects/pack").glob("*.idx")]


def test_what_comes_later_is_seen(repository: GitRepository) -> None:
    first = reader(repository)
    missing = bytes.fromhex(object_id("blob", TEXTS[5]))
    assert first.read([missing]) == [None]
    ids = written(repository, TEXTS)
    assert first.read([missing, bytes(20), *ids]) == [TEXTS[5], None, *TEXTS]


def test_objects_of_alternates_are_read(repository: GitRepository, tmp_path: Path) -> None:
    ids = written(repository, TEXTS)
    command = ["git", "clone", "--quiet", "--bare", "--shared", str(repository.git_directory)]
    subprocess.run([*command, str(tmp_path / "other")], check=True)
    other = GitRepository.open(tmp_path / "other")
    assert reader(other).read(ids) == TEXTS


def test_objects_of_any_size_are_read(repository: GitRepository) -> None:
    texts = [b"", b"x", bytes(3 << 20), *TEXTS]
    assert reader(repository).read(written(repository, texts)) == texts


@pytest.mark.thorough
def test_very_many_are_looked_up_at_once(repository: GitRepository) -> None:
    texts = [b"%d" % n for n in range(bulk._FEW + 1)]
    ids = written(repository, texts)
    assert reader(repository).read(ids) == texts


def test_many_that_are_asked_for_by_and_by_are_looked_up_at_once(
    repository: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_FEW", 100)
    monkeypatch.setattr(bulk, "_MANY", 100)
    texts = [b"%d" % n for n in range(300)]
    ids = written(repository, texts)
    found = reader(repository)
    (pack,) = found._packs.values()

    searched = []
    for start in range(0, 300, 30):
        assert found.read(ids[start : start + 30]) == texts[start : start + 30]
        searched.append(pack._heads is not None)

    assert searched == [False] * 3 + [True] * 7


def test_an_object_that_goes_on_beyond_what_was_read_is_read_whole(
    repository: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but deltas and what is huge is left to libgit2, which reads one by one."""
    random = np.random.default_rng(7)
    texts = [random.bytes(size) for size in (0, 1, 15, 16, 2047, 2048, 5000, 70_000, 400_000)]
    ids = written(repository, [*texts, *(b"%d" % n for n in range(30))])
    monkeypatch.setattr(bulk.BulkReader, "_read_others", None)
    for identity, text in zip(ids, texts, strict=False):
        assert reader(repository).read([identity]) == [text]
    assert reader(repository).read(ids[: len(texts)]) == texts


def test_small_packs_are_asked_first_and_searched_at_once(repository: GitRepository) -> None:
    texts = [b"%d" % n for n in range(1500)]
    ids = written(repository, texts[:900])
    (repository.data_folder / "growing").unlink()  # so that a new pack begins
    ids += written(repository, texts[900:])
    found = reader(repository)
    assert [pack.count for pack in found._packs.values()] == [600, 900]
    assert found.read(ids[-3:]) == texts[-3:]
    assert [pack._heads is not None for pack in found._packs.values()] == [True, False]
    assert found.read(ids[::7]) == texts[::7]


@pytest.mark.few(1)
@pytest.mark.parametrize("spread", ["even", "close", "ends"])
def test_a_few_are_found_in_a_large_index(
    tmp_path: Path, spread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_MANY", 10_000)
    random = np.random.default_rng(5)
    table = random.integers(0, 256, (20_000, 20), np.uint8)
    table[:, 0] = random.choice([0, 7, 255], len(table))
    if spread == "close":  # nobody's ids, but a stranger's index may hold them
        table[:, 1:8] = 90
    if spread == "ends":
        table[: len(table) // 2, 1:6], table[len(table) // 2 :, 1:6] = 0, 255
    table = table[np.lexsort(table.T[::-1])]
    fan = np.cumsum(np.bincount(table[:, 0], minlength=256)).astype(">u4")
    offsets = np.arange(len(table)).astype(">u4")
    path = tmp_path / "pack-1.idx"
    head = bulk._MAGIC + fan.tobytes() + table.tobytes()
    path.write_bytes(head + bytes(4 * len(table)) + offsets.tobytes() + bytes(40))
    path.with_suffix(".pack").write_bytes(b"")
    pack = bulk._Pack(path)
    places = np.unique(np.concatenate([[0, 19_999], random.integers(0, 20_000, 3000)]))
    assert pack.find(table[places]).tolist() == places.tolist()
    others = table[places].copy()
    others[:, 19] ^= 1
    there = {row.tobytes() for row in table}
    absent = np.array([row.tobytes() not in there for row in others])
    assert (pack.find(others)[absent] == -1).all()
    assert absent.any()


def test_packs_that_hardly_get_smaller_are_sound(repository: GitRepository) -> None:
    texts = [object_id("blob", b"%d" % n).encode() for n in range(3000)]
    ids = written(repository, texts)
    assert reader(repository).read(ids) == texts
    (index,) = packs(repository)
    repository.git("verify-pack", index)
    # What compression would not make smaller is not compressed, but for samples.
    assert Path(index).with_suffix(".pack").stat().st_size < 3000 * (40 + 14)


@pytest.mark.few(2)
@pytest.mark.parametrize("suffix", [".idx", ".pack"])
@pytest.mark.parametrize("size", [0, 8, 1032, 5000])
def test_packs_that_are_cut_off_give_errors_of_ours(
    repository: GitRepository, suffix: str, size: int
) -> None:
    ids = written(repository, TEXTS)
    (index,) = packs(repository)
    path = Path(index).with_suffix(suffix)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:size])
    try:
        found = reader(repository).read(ids)
    except CorruptDatasetError:
        return
    assert all(each in (None, text) for each, text in zip(found, TEXTS, strict=True))
    assert None in found


STORED = [np.random.default_rng(n).bytes(n * 31 % 4099) for n in range(200)]


def only_the_others(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many objects are inflated one by one."""
    counts: list[int] = []
    plain = bulk._inflated

    def inflated(block: bytes, offsets: list[int]) -> object:
        counts.append(len(offsets))
        return plain(block, offsets)

    monkeypatch.setattr(bulk, "_inflated", inflated)
    return counts


def test_what_is_not_compressed_is_read_together(
    repository: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = written(repository, [*STORED, *TEXTS])
    counts = only_the_others(monkeypatch)
    assert reader(repository).read(ids) == [*STORED, *TEXTS]
    assert 0 < sum(counts) < len(ids)


def test_what_git_does_not_compress_is_read_together(
    repository: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = written(repository, STORED)
    tree = b"".join(b"100644 %03d\0%s" % (n, identity) for n, identity in enumerate(ids))
    with repository.writer() as writer:
        root = writer.write("tree", tree)
        writer.flush()
    repository.git("update-ref", "refs/heads/keep", commit(repository, root))
    repository.git("-c", "pack.compression=0", "repack", "-adfFq", "--depth=0")
    counts = only_the_others(monkeypatch)
    assert reader(repository).read(ids) == STORED
    assert sum(counts) == 0


@pytest.mark.parametrize("place", [0, 7, 40, -1])
def test_damage_of_what_is_not_compressed_is_found(repository: GitRepository, place: int) -> None:
    texts = [object_id("blob", b"%d" % n).encode() for n in range(300)]
    ids = written(repository, texts)
    (index,) = packs(repository)
    path = Path(index).with_suffix(".pack")
    data = bytearray(path.read_bytes())
    # Samples are compressed.
    number = next(n for n, text in enumerate(texts) if text in data)
    at = data.index(texts[number])
    assert data[at - 7 : at - 4] == bulk._STORED
    data[at - 7 + place if place >= 0 else at + len(texts[number])] ^= 0x40
    path.chmod(0o644)
    path.write_bytes(data)
    with pytest.raises(CorruptDatasetError, match=ids[number].hex()):
        reader(repository).read(ids)
    del ids[number], texts[number]
    assert reader(repository).read(ids) == texts
