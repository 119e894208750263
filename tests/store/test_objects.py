import os
import random
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptDatasetError, StorageError
from havasu_vc.store import packs, places
from havasu_vc.store.objects import EMPTY_TREE, ObjectWriter, object_id, read_object
from havasu_vc.store.packs import PackWriter
from havasu_vc.store.preparation import init_repository
from havasu_vc.store.repository import GitRepository
from tests.support.examples import examples

Git = Callable[..., str]


def stored_files(repository: GitRepository) -> list[str]:
    folder = repository.common_directory / "objects"
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def blobs(count: int, seed: int = 0) -> list[bytes]:
    random_bytes = random.Random(seed).randbytes
    return [random_bytes(size % 300) + b"%d" % size for size in range(count)]


@pytest.mark.parametrize("count", [1, 3_000])
def test_nothing_is_stored_before_flush_and_all_after(
    repository: GitRepository, git: Git, count: int
) -> None:
    before = stored_files(repository)
    with repository.writer() as writer:
        ids = [writer.write("blob", data) for data in blobs(count)]
        assert [writer.read(i) for i in ids] == [("blob", data) for data in blobs(count)]
        visible = [p for p in stored_files(repository) if "/tmp_" not in p]
        assert visible == before

        writer.flush()

        # The same open repository sees them at once, and so does git.
        assert all(
            read_object(repository.objects, i, "blob") == d
            for i, d in zip(ids, blobs(count), strict=True)
        )
    assert git("fsck", "--strict", "--no-dangling", cwd=repository.path) == ""
    assert git("cat-file", "-t", ids[-1], cwd=repository.path) == "blob"
    assert not any("tmp_" in path for path in stored_files(repository))
    assert sum(path.startswith("pack/") for path in stored_files(repository)) == 2 * (count > 1)


def test_a_writer_that_is_left_leaves_nothing(repository: GitRepository) -> None:
    before = stored_files(repository)
    with pytest.raises(RuntimeError), repository.writer() as writer:
        for data in blobs(500):
            writer.write("blob", data)
        raise RuntimeError
    assert stored_files(repository) == before


def test_what_is_there_is_not_stored_again(repository: GitRepository) -> None:
    with repository.writer() as writer:
        for data in blobs(400):
            writer.write("blob", data)
        writer.flush()
    before = stored_files(repository)
    with repository.writer() as writer:
        for data in blobs(400):
            writer.write("blob", data)
        writer.flush()
    assert stored_files(repository) == before


def test_an_object_used_again_is_kept_from_pruning(repository: GitRepository, git: Git) -> None:
    with repository.writer() as writer:
        used, unused = writer.write("blob", b"used"), writer.write("blob", b"unused")
        writer.flush()
    for name in (used, unused):
        path = repository.common_directory / "objects" / name[:2] / name[2:]
        os.utime(path, (0, 0))

    with repository.writer() as writer:
        writer.write("blob", b"used")
        writer.flush()
    git("prune", "--expire=1.day.ago", cwd=repository.path)

    assert repository.objects.has(used) and not repository.objects.has(unused)


def test_packs_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    names = []
    for place in ("one", "two"):
        repository = init_repository(tmp_path / place)
        with repository.writer() as writer:
            for data in [*blobs(300), *blobs(300)]:
                writer.write("blob", data)
            writer.flush()
        folder = repository.common_directory / "objects"
        names.append({p: (folder / p).read_bytes() for p in stored_files(repository)})
    assert names[0] == names[1] and len(names[0]) == 2


@pytest.mark.parametrize(("recent", "few"), [(places.RECENT, places.FEW), (190, 400), (3, 0)])
@pytest.mark.few(1)
def test_gits_index_of_a_pack_is_ours(
    repository: GitRepository, git: Git, monkeypatch: pytest.MonkeyPatch, recent: int, few: int
) -> None:
    monkeypatch.setattr(places, "RECENT", recent)
    monkeypatch.setattr(places, "FEW", few)
    with repository.writer() as writer:
        for data in [b"", b"\0" * 5_000_000, *blobs(2_000)]:
            writer.write("blob", data)
        writer.write("tree", b"")
        writer.flush()
    (pack,) = (repository.common_directory / "objects/pack").glob("*.pack")
    assert stat.S_IMODE(pack.stat().st_mode) == 0o444

    git("index-pack", "-o", repository.path / "theirs.idx", pack, cwd=repository.path)

    assert (repository.path / "theirs.idx").read_bytes() == pack.with_suffix(".idx").read_bytes()


def test_memory_is_bounded_by_writing_early(repository: GitRepository) -> None:
    with ObjectWriter(repository.objects, memory_limit=1000) as writer:
        first = writer.write("blob", b"x" * 5000)
        assert any("tmp_pack" in path for path in stored_files(repository))
        assert writer.read(first) == ("blob", b"x" * 5000)


@examples(30)
@given(
    data=st.lists(st.binary(max_size=40), min_size=1, max_size=60),
    segment=st.integers(1, 9),
    few=st.integers(0, 40),
)
def test_what_was_added_can_be_read_whatever_moved_to_arrays(
    tmp_path_factory: pytest.TempPathFactory, data: list[bytes], segment: int, few: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "RECENT", segment)
        patch.setattr(places, "FEW", few)
        # Ids that end in zeros and differ in few bytes are the hard ones for the arrays.
        ids = [(item + bytes(20))[:20] for item in data]
        writer = PackWriter(tmp_path_factory.mktemp("pack"))
        expected: dict[bytes, bytes] = {}
        for identity, item in zip(ids, data, strict=True):
            writer.add(identity, 3, item)
            expected.setdefault(identity, item)
        assert all(writer.read(i) == (3, item) for i, item in expected.items())
        assert writer.read(b"\xff" * 19 + b"\x01") is None
        writer.discard()


@examples(30)
@given(
    groups=st.lists(st.lists(st.binary(max_size=40), max_size=20), max_size=8),
    segment=st.integers(1, 9),
)
def test_many_at_once_are_added_as_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[bytes]], segment: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "RECENT", segment)
        packed = []
        for at_once in (True, False):
            writer = PackWriter(tmp_path_factory.mktemp("pack"))
            for group in groups:
                ids = [(item + bytes(20))[:20] for item in group]
                if at_once:
                    writer.add_all(3, ids, group)
                else:
                    for identity, item in zip(ids, group, strict=True):
                        writer.add(identity, 3, item)
            pack = writer.finish()
            packed.append((pack.read_bytes(), pack.with_suffix(".idx").read_bytes()))
        assert packed[0] == packed[1]


@pytest.mark.parametrize("before", ["nothing", "loose", "a pack"])
@pytest.mark.parametrize("limit", [1 << 24, 1000])
def test_very_many_blobs_are_written_as_git_has_them(
    repository: GitRepository, git: Git, before: str, limit: int
) -> None:
    # Some that compress and some that do not, and some that come again at once or later.
    every = [*blobs(1_000), *(b"again %d " % (n % 40) * 9 for n in range(300)), b"", *blobs(60)]
    if before != "nothing":
        with repository.writer() as writer:
            writer.write_blobs(every[: 8 if before == "loose" else 400])
            writer.flush()
    with ObjectWriter(repository.objects, memory_limit=limit) as writer:
        ids = [each for at in (0, 30, 700) for each in writer.write_blobs(every[at:])]
        writer.flush()
    wanted = [data for at in (0, 30, 700) for data in every[at:]]
    assert [each.hex() for each in ids] == [object_id("blob", data) for data in wanted]
    assert git("fsck", "--strict", "--no-dangling", cwd=repository.path) == ""
    for each, data in zip(ids, wanted, strict=True):
        assert read_object(repository.objects, each.hex(), "blob") == data
    if before == "nothing" and limit == 1000:
        (pack,) = (repository.common_directory / "objects/pack").glob("*.pack")
        git("index-pack", "-o", repository.path / "theirs.idx", pack, cwd=repository.path)
        index = pack.with_suffix(".idx").read_bytes()
        assert (repository.path / "theirs.idx").read_bytes() == index


@pytest.mark.parametrize("step", ["fsync", "replace", "fsync_folder"])
def test_a_full_disk_leaves_no_half_pack(
    repository: GitRepository, git: Git, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with repository.writer() as writer:
        ids = [writer.write("blob", data) for data in blobs(500)]
        monkeypatch.setattr(packs if step == "fsync_folder" else os, step, full)
        with pytest.raises(StorageError, match="disk is full"):
            writer.flush()
    monkeypatch.undo()

    assert git("fsck", "--strict", "--no-dangling", cwd=repository.path) == ""
    assert not any("tmp_" in path for path in stored_files(repository))
    if step != "fsync_folder":
        assert not any(repository.objects.has(identity) for identity in ids)


def test_a_death_while_packing_is_swept_up_by_git(repository: GitRepository, git: Git) -> None:
    writer = PackWriter(repository.common_directory / "objects/pack")
    writer.add(bytes(20), 3, b"x")
    git("fsck", "--strict", cwd=repository.path)
    git("prune", "--expire=now", cwd=repository.path)
    assert stored_files(repository) == []
    writer.discard()


def test_the_empty_tree_is_there_without_being_stored(repository: GitRepository) -> None:
    assert repository.objects.read(EMPTY_TREE) == ("tree", b"")


def test_missing_and_damaged_objects_are_named(repository: GitRepository) -> None:
    with pytest.raises(CorruptDatasetError, match=f"git object {'1' * 40}: it is missing"):
        repository.objects.read("1" * 40)
    identity = repository.objects.write("blob", b"x")
    with pytest.raises(CorruptDatasetError, match="it is a blob, not a tree"):
        read_object(repository.objects, identity, "tree")
    path = repository.common_directory / "objects" / identity[:2] / identity[2:]
    path.chmod(0o644)
    path.write_bytes(b"garbage")
    with pytest.raises(CorruptDatasetError, match="cannot be read"):
        GitRepository.open(repository.path).objects.read(identity)


@given(st.binary(max_size=50))
def test_ids_depend_on_kind_and_bytes(data: bytes) -> None:
    assert object_id("blob", data) != object_id("tree", data)


def test_a_partial_clone_asks_git_for_what_it_lacks(
    repository: GitRepository, git: Git, tmp_path: Path
) -> None:
    (repository.path / "file").write_text("content")
    git("add", "file", cwd=repository.path)
    git("commit", "-qm", "x", cwd=repository.path)
    git("config", "uploadpack.allowFilter", "true", cwd=repository.path)
    blob = git("rev-parse", "HEAD:file", cwd=repository.path)
    url = f"file://{repository.path}"
    options = ["-q", "--no-checkout", "--filter=blob:none"]
    git("clone", *options, url, tmp_path / "clone", cwd=tmp_path)
    clone = GitRepository.open(tmp_path / "clone")
    assert not clone.objects.has(blob)

    assert clone.objects.read(blob) == ("blob", b"content")
