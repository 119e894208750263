"""Trees, their differences and edits, with git as the judge."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.store import trees
from havasu_vc.store.flat_trees import FlatTree, flat_pairs
from havasu_vc.store.objects import EMPTY_TREE
from havasu_vc.store.preparation import init_repository
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.trees import (
    BLOB,
    TREE,
    Change,
    Existing,
    TreeChange,
    blobs_below,
    changed_tree,
    edit_tree,
    entries,
    entry_pairs,
    find_datasets,
    find_entry,
    format_tree,
    parse_tree,
    read_blob,
    tree_difference,
)
from tests.support.examples import examples

Git = Callable[..., str]

# Few names, so that edits meet; some sort differently as a folder than as a file.
NAMES = st.sampled_from(["a", "a.b", "a-b", "a0", "b", "ü", "Z"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
CONTENTS = st.sampled_from([b"", b"1", b"2", b"3\n"])
FILES = st.dictionaries(PATHS, CONTENTS, max_size=10).filter(lambda files: consistent(files))


def consistent(files: Mapping[str, object]) -> bool:
    """Whether no file has another one below it."""
    return not any(path.startswith(other + "/") for path in files for other in files)


def apply(files: dict[str, bytes], edit: Mapping[str, bytes | None]) -> dict[str, bytes]:
    """Return what `edit_tree` promises, on a dict."""
    result = dict(files)
    for path in sorted(edit, key=lambda path: path.count("/")):
        data = edit[path]
        for other in list(result):
            above = path.startswith(other + "/") and data is not None
            if other == path or other.startswith(path + "/") or above:
                del result[other]
        if data is not None:
            result[path] = data
    return result


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> GitRepository:
    return init_repository(tmp_path_factory.mktemp("trees"), bare=True)


def write(repository: GitRepository, base: str | None, changes: Mapping[str, Change]) -> str:
    with repository.writer() as writer:
        tree = edit_tree(writer, base, changes)
        writer.flush()
    return tree


def gits_tree(repository: GitRepository, files: Mapping[str, bytes]) -> str:
    """Return the tree that git itself makes of the files."""
    lines = "".join(
        f"100644 {repository.objects.write('blob', data)}\t{path}\0" for path, data in files.items()
    )
    index = {"GIT_INDEX_FILE": str(repository.git_directory / "scratch-index")}
    Path(index["GIT_INDEX_FILE"]).unlink(missing_ok=True)
    repository.git("update-index", "-z", "--index-info", stdin=lines.encode(), environment=index)
    return repository.git("write-tree", environment=index).text


@examples(60)
@given(base=FILES, edit=st.dictionaries(PATHS, st.none() | CONTENTS, max_size=6))
def test_an_edited_tree_is_the_one_git_makes(
    shared: GitRepository, base: dict[str, bytes], edit: dict[str, bytes | None]
) -> None:
    before = write(shared, None, dict(base))
    if not consistent({path: data for path, data in edit.items() if data is not None}) or any(
        data is not None and any(other.startswith(path + "/") for other in edit)
        for path, data in edit.items()
    ):
        with pytest.raises(ValueError, match="cannot be a file"):
            write(shared, before, dict(edit))
        return

    after = write(shared, before, dict(edit))

    assert before == gits_tree(shared, base)
    assert after == gits_tree(shared, apply(base, edit))


@examples(60)
@given(one=FILES, other=FILES)
def test_differences_are_gits_and_lead_from_one_to_the_other(
    shared: GitRepository, one: dict[str, bytes], other: dict[str, bytes]
) -> None:
    a, b = write(shared, None, dict(one)), write(shared, None, dict(other))
    found = list(tree_difference(shared.objects, a, b))

    lines = shared.git("diff-tree", "-r", "-z", "--no-renames", a, b).text.split("\0")[:-1]
    expected = []
    for facts, path in zip(lines[::2], lines[1::2], strict=True):
        old, new = ("" if set(i) == {"0"} else i for i in facts.split()[2:4])
        expected.append(TreeChange(path, old or None, new or None))
    # git shows a file before the folder that took its place; we sort by git's tree order.
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert [c.path for c in found if c.new] == [
        name
        for name, _ in blobs_below(shared.objects, b)
        if name in {c.path for c in found if c.new}
    ]

    edit: dict[str, Change] = {c.path: None for c in found if c.new is None}
    edit |= {c.path: Existing(c.new) for c in found if c.new is not None}
    # A file that becomes a folder is both in the way and gone.
    edit = {
        p: e
        for p, e in edit.items()
        if e is not None
        or not any(
            q.startswith(p + "/") or p.startswith(q + "/") for q in edit if edit[q] is not None
        )
    }
    assert write(shared, a, edit) == b
    backwards = [TreeChange(c.path, c.new, c.old) for c in found]
    assert sorted(tree_difference(shared.objects, b, a), key=str) == sorted(backwards, key=str)
    assert list(tree_difference(shared.objects, a, a)) == []


@given(FILES)
def test_trees_are_read_as_written(shared: GitRepository, files: dict[str, bytes]) -> None:
    tree = write(shared, None, dict(files))
    data = shared.objects.read(tree)[1]
    assert format_tree({name: (mode, i) for mode, name, i in parse_tree(data)}) == data
    assert {path: read_blob(shared.objects, tree, path) for path in files} == files
    assert {
        name: shared.objects.read(blob)[1] for name, blob in blobs_below(shared.objects, tree)
    } == files
    assert read_blob(shared.objects, tree, "a/none") is None


@given(st.binary(max_size=60))
def test_other_bytes_are_no_tree(data: bytes) -> None:
    try:
        found = parse_tree(data)
    except ValueError:
        return
    assert b"".join(m + b" " + n + b"\0" + i for m, n, i in found) == data


def test_a_whole_folder_is_replaced_moved_and_removed(shared: GitRepository) -> None:
    tree = write(shared, None, {"a/x": b"1", "a/y": b"2", "b/z": b"3"})
    replaced = write(shared, tree, {"a": None, "a/n": b"4"})
    assert [name for name, _ in blobs_below(shared.objects, replaced)] == ["a/n", "b/z"]
    folder = find_entry(shared.objects, tree, "a")
    assert folder is not None and folder.is_tree
    moved = write(shared, tree, {"a": None, "c/d": Existing(folder.id, "tree"), "c/d/x": b"5"})
    assert [name for name, _ in blobs_below(shared.objects, moved)] == ["b/z", "c/d/x", "c/d/y"]
    assert write(shared, tree, {"a": None, "b": None}) == EMPTY_TREE
    assert write(shared, tree, {"a/none": None, "q/r": None}) == tree


@pytest.mark.parametrize("path", ["", "/a", "a//b", "a/", "../a", "a/./b", "a\0b"])
def test_paths_that_are_none_are_refused(shared: GitRepository, path: str) -> None:
    with pytest.raises(CorruptDatasetError, match="no tree can have such a path"):
        write(shared, None, {path: b"x"})


def test_an_executable_and_a_link_of_the_user_survive(repository: GitRepository, git: Git) -> None:
    where = repository.path
    (where / "run").write_text("#!/bin/sh\n")
    (where / "run").chmod(0o755)
    (where / "link").symlink_to("run")
    git("add", ".", cwd=where)
    git("commit", "-qm", "x", cwd=where)
    tree = write(repository, git("rev-parse", "HEAD^{tree}", cwd=where), {"new": b"x"})
    modes = {e.name: e.mode for e in entries(repository.objects, tree)}
    assert modes == {"link": b"120000", "new": b"100644", "run": b"100755"}
    assert read_blob(repository.objects, tree, "link") is None


def test_datasets_are_found_and_not_looked_into(shared: GitRepository) -> None:
    tree = write(
        shared,
        None,
        {
            "z/.table-dataset/meta/schema.json": b"[]",
            "roads/.havasu-dataset/snapshot.json": b"{}",
            "roads/.havasu-dataset/x/.havasu-dataset/y": b"inside another one's internals",
            "roads/inner/.havasu-dataset/y": b"inside another one",
            "a/b/c/.sno-dataset/meta/x": b"",
            ".havasu-dataset/snapshot.json": b"the root is none",
            "docs/.havasu-dataset": b"a file is none",
            "README": b"",
        },
    )
    found = find_datasets(shared.objects, tree)
    assert [(f.path, f.marker) for f in found] == [
        ("a/b/c", ".sno-dataset"),
        ("roads", ".havasu-dataset"),
        ("z", ".table-dataset"),
    ]
    moved = write(shared, tree, {"new/place": Existing(found[1].tree, "tree")})
    paths = [f.path for f in find_datasets(shared.objects, moved)]
    assert paths == ["a/b/c", "new/place", "roads", "z"]
    inner = find_entry(shared.objects, moved, f"{found[1].path}/.havasu-dataset")
    assert inner is not None and inner.id == found[1].internals


@pytest.mark.parametrize("name", [b"..", b".git", b"a\nb", b".GIT ", b"git~1", b"a\\b"])
def test_a_dataset_of_a_dangerous_name_is_passed_over(shared: GitRepository, name: bytes) -> None:
    inner = write(shared, None, {".havasu-dataset/snapshot.json": b"{}"})
    raw = format_tree({n: (b"40000", bytes.fromhex(inner)) for n in (name, b"good")})
    tree = shared.objects.write("tree", raw) if name not in (b"..", b".git") else None
    if tree is None:  # libgit2 writes no such tree, but git's plumbing does
        tree = shared.git(
            "hash-object", "-w", "--literally", "-t", "tree", "--stdin", stdin=raw
        ).text
    told: list[str] = []
    found = find_datasets(shared.objects, tree, lambda folder, _: told.append(folder.path))
    assert [folder.path for folder in found] == ["good"]
    assert told == [name.decode()]


def nested(repository: GitRepository, depth: int, width: int, leaf: str) -> str:
    tree = leaf
    for _ in range(depth):
        raw = format_tree({b"%d" % n: (b"40000", bytes.fromhex(tree)) for n in range(width)})
        tree = repository.objects.write("tree", raw)
    return tree


def test_trees_made_to_hurt_are_refused_soon(shared: GitRepository) -> None:
    plain = write(shared, None, {"file": b"x"})
    dataset = write(shared, None, {"d/.havasu-dataset/snapshot.json": b"{}"})
    deep = nested(shared, 400, 1, plain)
    start = time.process_time()
    with pytest.raises(CorruptDatasetError, match="deep"):
        find_datasets(shared.objects, deep)
    with pytest.raises(CorruptDatasetError, match="deep"):
        list(tree_difference(shared.objects, EMPTY_TREE, deep))
    assert find_datasets(shared.objects, nested(shared, 9, 10, plain)) == ()
    with pytest.raises(CorruptDatasetError, match="datasets"):
        find_datasets(shared.objects, nested(shared, 9, 10, dataset))
    assert time.process_time() - start < 10


def test_a_small_difference_of_large_trees_reads_little(shared: GitRepository) -> None:
    files = {f"f/{n % 256:02x}/{n:06x}": b"%d" % n for n in range(20_000)}
    a = write(shared, None, dict(files))
    b = write(shared, a, dict.fromkeys(list(files)[::4000], b"new"))

    class Counting:
        reads = 0

        def read(self, object_id: str) -> tuple[object, bytes]:
            self.reads += 1
            return shared.objects.read(object_id)

    counting = Counting()
    assert len(list(tree_difference(counting, a, b))) == 5  # type: ignore[arg-type]
    assert counting.reads <= 2 * (2 + 5)


SAME = st.text("abc0/\0é", min_size=1, max_size=2).map(str.encode)
ONE_LENGTH = st.integers(1, 3).flatmap(
    lambda size: st.dictionaries(
        st.lists(st.sampled_from(b"ab0.~"), min_size=size, max_size=size).map(bytes),
        st.binary(min_size=20, max_size=20),
        min_size=2,
        max_size=12,
    )
)


@given(
    files=ONE_LENGTH,
    other=st.dictionaries(SAME, st.none() | st.just(b"x" * 20), max_size=3),
    mode=st.sampled_from([BLOB, TREE]),
)
def test_a_flat_tree_is_looked_up_and_edited_as_any_other(
    files: dict[bytes, bytes], other: dict[bytes, bytes | None], mode: bytes
) -> None:
    items = {name: (mode, identity) for name, identity in files.items()}
    data = format_tree(items)
    flat = FlatTree.read(data)
    assert flat is not None
    edit = dict.fromkeys(list(files)[::3]) | {
        name: None if identity is None else (BLOB, identity)
        for name, identity in other.items()
        if not set(name) & set(b"/\0")
    }

    assert flat.items() == items
    assert all(flat.get(name) == items.get(name) for name in (*files, *edit))
    assert flat.of_files == (mode == BLOB)
    names = {name.encode(): (mode, bytes.fromhex(identity)) for name, identity in flat.texts()}
    assert list(names.items()) == sorted(items.items())
    after = {name: leaf for name, leaf in {**items, **edit}.items() if leaf is not None}
    assert changed_tree(flat, edit) == format_tree(after)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"100644", b"100644", b"100755", b"40000", b"40000"]),
            st.sampled_from([b"aa", b"ab", b"bb", b"b0", b"c"]),
            st.sampled_from([b"x" * 20, b"y" * 20]),
        ),
        max_size=5,
    ),
    st.data(),
)
def test_trees_of_one_length_differ_as_any_others(
    entries: list[tuple[bytes, bytes, bytes]], data: st.DataObject
) -> None:
    other = data.draw(st.lists(st.sampled_from([*entries, (BLOB, b"zz", b"z" * 20)]), max_size=5))
    sides = [b"".join(b"%s %s\0%s" % entry for entry in each) for each in (entries, other)]
    found = flat_pairs(*sides)
    if found is not None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trees, "flat_pairs", lambda old, new: None)
            assert found == entry_pairs(*sides)


@pytest.mark.parametrize("damage", [b"100755 ab\0", b"100644 a/\0", b"100644 \0b\0", b"100644 abc"])
def test_what_came_is_no_entry_of_that_length(damage: bytes) -> None:
    good = b"100644 aa\0" + b"x" * 20 + b"100644 ba\0" + b"x" * 20
    assert flat_pairs(good, good + b"100644 bb\0" + b"y" * 20) is not None
    assert flat_pairs(good, good + damage + b"y" * 20) is None


def test_folders_of_one_length_differ_as_any_others() -> None:
    old = [(TREE, bytes([name]), b"x" * 20) for name in b"ABab"]
    new = [old[0], (TREE, b"B", b"y" * 20), old[3], (TREE, b"z", b"z" * 20)]
    sides = [b"".join(b"%s %s\0%s" % entry for entry in each) for each in (old, new)]
    found = flat_pairs(*sides)
    assert found is not None
    assert [name for name, _ in found] == [b"B/", b"a/", b"z/"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "flat_pairs", lambda old, new: None)
        assert found == entry_pairs(*sides)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"100644", b"100755", b"40000", b"040000"]),
            SAME,
            st.binary(min_size=20, max_size=20),
        ),
        max_size=4,
    )
)
def test_only_what_any_reader_would_read_alike_is_flat(
    entries: list[tuple[bytes, bytes, bytes]],
) -> None:
    data = b"".join(b"%s %s\0%s" % entry for entry in entries)
    flat = FlatTree.read(data)
    if flat is not None:
        parsed = parse_tree(data)
        assert flat.items() == {name: (mode, identity) for mode, name, identity in parsed}
        assert [name for _, name, _ in parsed] == sorted({name for _, name, _ in parsed})
        assert {mode for mode, _, _ in parsed} == {BLOB if flat.of_files else TREE}
