"""Folders of features: what a walk of two finds is what comparing all their files finds."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.kart.trees import (
    SourceObjects,
    changed_files,
    count_apart,
    objects_of,
)
from havasu_vc.errors import CorruptDatasetError
from havasu_vc.store.objects import EMPTY_TREE
from havasu_vc.store.preparation import init_repository
from havasu_vc.store.trees import edit_tree
from tests.support.examples import examples

PARTS = st.sampled_from(["A", "B", "_", "kU0="])
FILES = st.dictionaries(
    st.lists(PARTS, min_size=1, max_size=4).map("/".join), st.binary(max_size=2), max_size=12
)


def without_clashes(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return files of which none is where another needs a folder."""
    return {
        path: data
        for path, data in files.items()
        if not any(other.startswith(f"{path}/") for other in files)
    }


@examples(60)
@given(first=FILES.map(without_clashes), second=FILES.map(without_clashes), stored=st.booleans())
def test_a_walk_finds_what_differs(
    first: dict[str, bytes], second: dict[str, bytes], stored: bool
) -> None:
    with TemporaryDirectory() as folder:
        repository = init_repository(Path(folder) / "repo", bare=True)
        with repository.writer() as writer:
            trees = [edit_tree(writer, None, files) for files in (first, second)]
            if stored:
                writer.flush()
            objects = objects_of(repository.objects) if stored else SourceObjects(writer)
            sides = [tree.replace(EMPTY_TREE, "") for tree in trees]
            found = changed_files(objects, objects, *sides)
            assert count_apart(objects, *sides) == len(second) - len(first)
            read = [
                [None if each is None else objects.read([each])[0] for each in side]
                for side in (found.old, found.new)
            ]
        paths = [
            (folder + b"/" + name if folder else name).decode()
            for folder, name in zip(found.folders, found.names, strict=True)
        ]
        differing = {
            path: (first.get(path), second.get(path))
            for path in first.keys() | second.keys()
            if first.get(path) != second.get(path)
        }
        assert dict(zip(paths, zip(*read, strict=True), strict=True)) == differing
        assert len(set(paths)) == len(paths)


def test_where_very_much_differs_nothing_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = init_repository(tmp_path / "repo", bare=True)
    objects = objects_of(repository.objects)
    with repository.writer() as writer:
        few, many = (
            edit_tree(writer, None, {f"A/{n}/{n}": b"x" for n in range(count)}) for count in (2, 9)
        )
        writer.flush()
    monkeypatch.setattr("havasu_vc.datasets.kart.trees._MANY", 6)
    assert count_apart(objects, few, many) is None
    monkeypatch.setattr("havasu_vc.datasets.kart.trees._MANY", 7)
    assert count_apart(objects, few, many) == 7
    assert count_apart(objects, many, few) == -7


def test_folders_within_folders_end_somewhere(tmp_path: Path) -> None:
    repository = init_repository(tmp_path / "repo", bare=True)
    objects = objects_of(repository.objects)
    with repository.writer() as writer:
        deep = edit_tree(writer, None, {"/".join("A" * 60): b"x"})
        writer.flush()
    with pytest.raises(CorruptDatasetError, match="nest too deeply"):
        changed_files(objects, objects, "", deep)
