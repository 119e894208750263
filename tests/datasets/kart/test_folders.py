"""Looking rows up in more folders than are looked into at once."""

from pathlib import Path

import pytest

from havasu_vc.datasets.kart import folders as looking
from havasu_vc.datasets.kart.folders import Folders
from havasu_vc.datasets.kart.trees import objects_of
from havasu_vc.datasets.kart.writing import FeatureChanges
from havasu_vc.store.objects import object_id
from havasu_vc.store.preparation import init_repository
from havasu_vc.store.trees import edit_tree, entries, find_entry


@pytest.mark.parametrize("stored", [True, False])
def test_rows_of_many_folders_are_found_and_few_folders_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    monkeypatch.setattr(looking, "FOLDERS_TOGETHER", 20)
    files = {
        f"{a}{b}/{c}/row": f"{a}{b}{c}".encode() for a in "abcde" for b in "fgh" for c in "ijkl"
    }
    repository = init_repository(tmp_path / "repo", bare=True)
    with repository.writer() as writer:
        tree = edit_tree(writer, None, files)
        if stored:
            writer.flush()
        source = repository.objects if stored else writer
        asked = [path.rpartition("/")[0].encode() for path in files] * 2 + [b"aa/i", b"af/i"]
        names = [b"row"] * (2 * len(files)) + [b"row", b"other"]
        found = Folders(objects_of(source), source, tree).find(asked, names)
        again = Folders(objects_of(source), source, tree, again=True)
        assert again.find(asked, names) == found == again.find(asked, names)
        nothing = Folders(objects_of(source), source, "").find(asked, names)

    ids = [bytes.fromhex(object_id("blob", data)) for data in files.values()]
    assert found == [*ids, *ids, None, None]
    assert nothing == [None] * len(asked)
    assert len(looking._of_rows) <= 20


def test_a_folder_of_rows_is_forgotten_once_it_is_written_anew(tmp_path: Path) -> None:
    files = {f"{a}/{b}/row": f"{a}{b}".encode() for a in "abcdefgh" for b in "ijkl"}
    repository = init_repository(tmp_path / "repo", bare=True)
    looking._above.clear()
    with repository.writer() as writer:
        tree = edit_tree(writer, None, files)
        writer.flush()
    source = repository.objects
    folders = Folders(objects_of(source), source, tree, again=True)
    paths = [path.rpartition("/")[0].encode() for path in files]
    assert None not in folders.find(paths, [b"row"] * len(paths))
    above = {tree, *(entry.id for entry in entries(source, tree))}
    of_rows = {each.id for up in entries(source, tree) for each in entries(source, up.id)}
    assert above | of_rows == set(looking._above)

    changes = FeatureChanges()
    changes.add(paths[:-1], [b"row"] * (len(paths) - 1), [None] * (len(paths) - 1))
    with repository.writer() as writer:
        left = changes.write(writer, tree, folders)
        writer.flush()
    rest = find_entry(source, tree, paths[-1].decode())
    assert rest is not None
    assert of_rows & set(looking._above) == {rest.id}
    folder = find_entry(source, left, paths[-1].decode())
    assert folder == rest
    assert len(entries(source, left)) == 1
