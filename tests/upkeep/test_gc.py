"""Nothing that git reaches in any way is deleted; what it does not reach goes when it is old."""

import hashlib
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from havasu_vc.errors import CorruptDatasetError, LockedError
from havasu_vc.formats.lfs import Pointer, format_pointer
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.locks import exclusive_lock, shared_lock
from havasu_vc.store.objects import ObjectId, ObjectKind, ObjectSource
from havasu_vc.store.preparation import init_repository
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.trees import edit_tree
from havasu_vc.upkeep.garbage import Garbage, collect_garbage, collect_roots, reachable_files

OLD = 10 * 24 * 60 * 60


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return init_repository(tmp_path / "repository")


@pytest.fixture
def store(repository: GitRepository) -> DataFileStore:
    return DataFileStore(repository.data_folder)


def stored(store: DataFileStore, text: str, *, age: float = OLD) -> str:
    """Put a data file into the store; return its name."""
    temporary = store.temporary()
    temporary.write_text(text)
    name, _ = store.put(temporary)
    os.utime(store.path(name), (time.time() - age,) * 2)
    return name


def named(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def tree_with(repository: GitRepository, *files: str) -> ObjectId:
    """Write a tree whose one dataset names these data files."""
    changes = {}
    for file in files:
        inside = f"nz/parcels/.havasu-dataset/{{}}/{file[:2]}/{file}"
        changes[inside.format("data")] = format_pointer(Pointer(file, 1))
        changes[inside.format("files") + ".json"] = b"{}"
    with repository.writer() as writer:
        tree = edit_tree(writer, None, {"readme": b"hello", **changes})
        writer.flush()
    return tree


def commit(repository: GitRepository, *files: str) -> ObjectId:
    return repository.git("commit-tree", "-m", "test", tree_with(repository, *files)).text


def reach_by_branch(repository: GitRepository, file: str) -> None:
    repository.git("update-ref", "refs/heads/other", commit(repository, file))


def reach_by_parent(repository: GitRepository, file: str) -> None:
    first = commit(repository, file)
    second = repository.git("commit-tree", "-m", "2", "-p", first, tree_with(repository)).text
    repository.git("update-ref", "refs/heads/main", second)


def reach_by_tag(repository: GitRepository, file: str) -> None:
    repository.git("tag", "-a", "-m", "a tag", "v1", commit(repository, file))


def reach_by_tagged_tree(repository: GitRepository, file: str) -> None:
    repository.git("tag", "-a", "-m", "a tag", "v1", tree_with(repository, file))


def reach_by_reflog(repository: GitRepository, file: str) -> None:
    repository.git("update-ref", "refs/heads/main", commit(repository))
    repository.git("checkout", "-q", "-f", "main")
    repository.git("reset", "-q", "--soft", commit(repository, file))
    repository.git("reset", "-q", "--soft", "HEAD@{1}")


def reach_by_stash(repository: GitRepository, file: str) -> None:
    repository.git("update-ref", "--create-reflog", "refs/stash", commit(repository, file))
    repository.git("update-ref", "refs/stash", commit(repository))


def reach_by_merge(repository: GitRepository, file: str) -> None:
    (repository.git_directory / "MERGE_HEAD").write_text(commit(repository, file) + "\n")


def reach_by_rebase(repository: GitRepository, file: str) -> None:
    folder = repository.git_directory / "rebase-merge"
    folder.mkdir()
    (folder / "git-rebase-todo").write_text(f"pick {commit(repository, file)} # test\n")


def reach_by_index(repository: GitRepository, file: str) -> None:
    blob = repository.git("hash-object", "-w", "--stdin", stdin=b"pointer").text
    path = f"parcels/.havasu-dataset/data/{file[:2]}/{file}"
    repository.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")


def reach_by_conflict(repository: GitRepository, file: str) -> None:
    blob = repository.git("hash-object", "-w", "--stdin", stdin=b"pointer").text
    path = f"parcels/.havasu-dataset/data/{file[:2]}/{file}"
    line = f"100644 {blob} 3\t{path}\n".encode()
    repository.git("update-index", "--index-info", stdin=line)


def reach_by_worktree_head(repository: GitRepository, file: str) -> None:
    repository.git("update-ref", "refs/heads/main", commit(repository))
    place = repository.path.parent / "linked"
    repository.git("worktree", "add", "-q", "--detach", str(place), commit(repository, file))
    # Even the reflog forgets it.
    (repository.common_directory / "worktrees/linked/logs/HEAD").unlink()


def reach_by_worktree_index(repository: GitRepository, file: str) -> None:
    repository.git("update-ref", "refs/heads/main", commit(repository))
    place = repository.path.parent / "linked"
    repository.git("worktree", "add", "-q", "--detach", str(place), "main")
    reach_by_index(GitRepository.open(place), file)


def reach_by_replaced_commit(repository: GitRepository, file: str) -> None:
    first, second = commit(repository, file), commit(repository)
    repository.git("update-ref", "refs/heads/main", first)
    repository.git("replace", first, second)


def reach_by_fetch(repository: GitRepository, file: str) -> None:
    text = f"{commit(repository, file)}\t\tbranch 'main' of elsewhere\n"
    (repository.git_directory / "FETCH_HEAD").write_text(text)


WAYS: list[Callable[[GitRepository, str], None]] = [
    value for name, value in sorted(globals().items()) if name.startswith("reach_by_")
]


@pytest.mark.few(2)
@pytest.mark.parametrize("reach", WAYS, ids=lambda way: way.__name__)
def test_what_is_reached_stays_and_the_rest_goes(
    repository: GitRepository, store: DataFileStore, reach: Callable[[GitRepository, str], None]
) -> None:
    wanted, other = stored(store, "wanted"), stored(store, "other")
    reach(repository, wanted)

    garbage = collect_garbage(repository, grace_seconds=60)

    assert list(store.iter()) == [wanted]
    assert garbage == Garbage(1, len("other"))
    assert other == named("other")


def test_an_empty_repository_has_no_roots(repository: GitRepository) -> None:
    assert collect_roots(repository).trees == frozenset()
    assert collect_garbage(repository) == Garbage(0, 0)


def test_what_is_young_or_kept_stays(repository: GitRepository, store: DataFileStore) -> None:
    young, kept = stored(store, "young", age=0), stored(store, "kept")

    garbage = collect_garbage(repository, keep=[kept], grace_seconds=60)

    assert set(store.iter()) == {young, kept}
    assert garbage == Garbage(0, 0, kept_young=1)


def test_a_dry_run_says_the_same_and_removes_nothing(
    repository: GitRepository, store: DataFileStore
) -> None:
    file = stored(store, "old")
    keys = repository.data_folder / "keys"
    keys.mkdir()
    (keys / f"{file}-0011").write_text("cache")

    said = collect_garbage(repository, grace_seconds=60, dry_run=True)

    assert store.has(file)
    assert (keys / f"{file}-0011").exists()
    assert said == collect_garbage(repository, grace_seconds=60) == Garbage(1, 8)
    assert not store.has(file)
    assert not list(keys.iterdir())


def test_key_caches_of_files_in_use_stay(repository: GitRepository, store: DataFileStore) -> None:
    file = stored(store, "wanted")
    reach_by_branch(repository, file)
    keys = repository.data_folder / "keys"
    keys.mkdir()
    names = [f"{file}-0011", f"{file}-verified", f"{named('gone')}-0011", ".tmp-abc"]
    for name in names:
        (keys / name).touch()
        os.utime(keys / name, (time.time() - OLD,) * 2)

    collect_garbage(repository, grace_seconds=60)

    assert {path.name for path in keys.iterdir()} == set(names[:2])


def test_what_crashes_left_goes_when_it_is_old(repository: GitRepository) -> None:
    folder = repository.data_folder
    staged = folder / "staging/0011/objects/aa/bb/file"
    staged.parent.mkdir(parents=True)
    (folder / "temporary/runs").mkdir(parents=True)
    files = [staged, folder / "temporary/0022", folder / "temporary/runs/run-1.arrows"]
    objects = repository.common_directory / "objects"
    outside = [objects / "tmp_object_git2_0011", objects / "pack/tmp_pack_havasu_0022"]
    files += outside
    for path in files:
        path.write_text("rest")

    collect_garbage(repository, grace_seconds=60)
    assert all(path.exists() for path in files)

    for path in (*folder.rglob("*"), *outside):
        os.utime(path, (time.time() - OLD,) * 2)
    collect_garbage(repository, grace_seconds=60)
    assert not any(path.exists() for path in files)


def test_it_waits_for_commits(repository: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    impatient = partial(exclusive_lock, patience=0)
    monkeypatch.setattr("havasu_vc.upkeep.garbage.exclusive_lock", impatient)
    with shared_lock(repository.data_folder / "lock"), pytest.raises(LockedError):
        collect_garbage(repository)


def test_a_tree_that_cannot_be_read_stops_it(
    repository: GitRepository, store: DataFileStore
) -> None:
    file = stored(store, "wanted")
    tree = tree_with(repository, file)
    repository.git(
        "update-ref", "refs/heads/main", repository.git("commit-tree", "-m", "1", tree).text
    )
    inner = repository.git("rev-parse", f"{tree}:nz/parcels").text
    (repository.common_directory / "objects" / inner[:2] / inner[2:]).unlink()

    with pytest.raises(CorruptDatasetError):
        collect_garbage(repository, grace_seconds=0)
    assert store.has(file)


class Counting:
    """A source that counts what is read."""

    def __init__(self, source: ObjectSource) -> None:
        self.source = source
        self.reads = 0

    def read(self, object_id: ObjectId) -> tuple[ObjectKind, bytes]:
        self.reads += 1
        return self.source.read(object_id)


@pytest.mark.thorough
def test_many_commits_cost_what_they_changed(repository: GitRepository) -> None:
    names = [named(str(number)) for number in range(300)]
    trees = [tree_with(repository, *names, named(f"more {i}")) for i in range(20)]
    source = Counting(repository.objects)

    found = reachable_files(source, trees)

    assert found == {*names, *(named(f"more {i}") for i in range(20))}
    one = Counting(repository.objects)
    reachable_files(one, trees[:1])
    # Root, nz, parcels, the dataset, files, data, and one folder below each of these two;
    # the folders that only the first tree has otherwise count once more.
    assert source.reads <= one.reads + 19 * 8 + 2
