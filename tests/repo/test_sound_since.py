"""Whether a tree is sound, told from what differs from one that is: as by looking at all.

The trees are of histories made by commits, folds, plain git's merges and reverts, and of what a
hand makes of two of them, file by file.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu import soundness
from havasu_vc.datasets.havasu.standing import is_sound_since
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import HavasuError
from havasu_vc.formats.havasu.deltas import delta_path, format_tombstone
from havasu_vc.store.trees import Existing
from tests.repo.points import make, read, write
from tests.support.git import run_git


def history(path: Path, seed: int) -> list[HavasuDataset]:
    """Return a table at the commits of a random history."""
    choose = random.Random(seed)
    rows = {number: (f"n{number}", number) for number in range(40)}
    repo = make(path, rows)
    run_git("branch", "other", cwd=path)
    for step in range(10):
        repo = Repo.open(path)
        what = choose.choice(["edit", "edit", "all", "switch", "merge", "revert", "fold"])
        if step == 8:
            what = "fold"
        if what == "switch":
            repo.switch(choose.choice(["main", "other"]))
        elif what == "merge":
            run_git("merge", "--no-edit", choose.choice(["main", "other"]), cwd=path, check=False)
            run_git("merge", "--abort", cwd=path, check=False)
        elif what == "revert" and has_table(path, "HEAD~1"):
            run_git("revert", "--no-edit", "HEAD", cwd=path, check=False)
            run_git("revert", "--abort", cwd=path, check=False)
        elif what == "fold":
            repo.optimize()
        elif what != "revert":
            now = read(repo)
            for key in choose.sample(range(60), 45 if what == "all" else choose.randint(1, 4)):
                now[key] = (f"{step}", key)
            write(repo, now)
    commits = run_git("rev-list", "--reverse", "--topo-order", "main", "other", cwd=path).split()
    return [table(path, commit) for commit in commits if has_table(path, commit)]


def has_table(path: Path, commit: str) -> bool:
    """Whether a commit has the table."""
    return bool(run_git("ls-tree", commit, "points/", cwd=path, check=False))


def table(path: Path, commit: str) -> HavasuDataset:
    """Return the table at a commit."""
    view = Repo.open(path).dataset("points", commit)
    assert isinstance(view, HavasuDataset)
    return view


def is_sound(view: HavasuDataset) -> bool:
    """Whether it is, where all is looked at."""
    soundness._sound.clear()
    soundness._unsound.clear()
    try:
        soundness.check_guard(view.folder, view.path, "HEAD")
    except HavasuError:
        return False
    return True


def told_since(old: HavasuDataset, new: HavasuDataset) -> bool:
    """Whether the new one is told to be sound as the old one is."""
    assert isinstance(old.folder, TreeFolder)
    assert isinstance(new.folder, TreeFolder)
    return is_sound_since(old.folder, new.folder, "points/files", old.properties.table_uuid)


def changed(view: HavasuDataset, blobs: dict[str, bytes | None]) -> HavasuDataset:
    """Return it with other files."""
    return view.after(TreeEdit(view.path, blobs))


def mixed(choose: random.Random, one: HavasuDataset, other: HavasuDataset) -> HavasuDataset:
    """Return what a hand makes of two: some files, or nearly all, of the other one."""
    share = choose.choice([0.03, 0.5, 0.97])
    blobs: dict[str, bytes | Existing | None] = {}
    for folder in ("files", "edits", "data"):
        for name, _, new in one.folder.difference(other.folder, folder):
            if choose.random() < share:
                blobs[f"{folder}/{name}"] = None if new is None else other.folder.read_blob(new)
    return one.after(TreeEdit(one.path, blobs))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.few(1)
def test_what_is_told_to_be_sound_is(seed: int, tmp_path: Path) -> None:
    choose = random.Random(seed)
    views = history(tmp_path / "repo", seed)
    sound = [view for view in views if is_sound(view)]
    told = sum(told_since(old, new) for old in sound for new in sound)
    assert told >= len(sound) * 2, "nothing but the same tree is told to be sound"
    unsound = 0
    for _ in range(40):
        old, one, other = (choose.choice(sound) for _ in range(3))
        try:
            new = mixed(choose, one, other)
        except (ValueError, HavasuError):
            continue  # a file and a folder of one name
        if not is_sound(new):
            unsound += 1
            assert not told_since(old, new)
            assert not told_since(one, new)
    assert unsound > 4


def broken(view: HavasuDataset) -> Iterator[dict[str, bytes | None]]:
    """Yield changes by which a table is no more sound."""
    delta = next(d for d in view.deltas.values() if d.epoch is not None)
    first = next(d for d in view.deltas.values() if d.epoch is None)
    markers = [f"edits/{n}" for n, _ in view.folder.blobs("edits") if n.count("/") > 1]
    fresh = "0" * 40
    yield {delta.path: None}
    yield {delta.path: format_tombstone(fresh)}
    yield {delta.path: format_tombstone(delta.id)}
    yield {delta.path: format_tombstone(first.id)}
    yield {delta_path(fresh): format_tombstone("1" * 40)}
    yield {
        delta_path(fresh): format_tombstone("1" * 40),
        delta_path("1" * 40): format_tombstone(fresh),
    }
    yield {markers[0]: None}
    yield {markers[0]: b"\0" + b"1" * 32}
    yield {f"{markers[0][:-6]}zzzzzz": b"\0" + b"1" * 32}
    yield {"edits/3": None}
    yield {"edits/77": b"x"}
    yield {delta.files[0].pointer_path: None}
    yield {f"data/00/{'0' * 64}": b"x"}


def test_what_a_hand_made_wrong_is_never_told_to_be_sound(tmp_path: Path) -> None:
    rows = {number: ("x", number) for number in range(10)}
    repo = make(tmp_path / "repo", rows)
    first = write(repo, {**rows, 1: ("y", 1)})
    second = write(repo, {**rows, 1: ("y", 1), 2: ("y", 2)})
    old, view = table(repo.path, first), table(repo.path, second)
    assert told_since(old, view)
    for blobs in broken(view):
        made = changed(view, blobs)
        assert not is_sound(made), blobs
        for known in (old, view):
            assert not told_since(known, made), blobs


def test_only_what_a_commit_changed_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {number: ("x", number) for number in range(10)}
    repo = make(tmp_path / "repo", rows)
    write(repo, {**rows, 1: ("y", 1)})
    run_git("branch", "other", cwd=repo.path)
    write(repo, {**rows, 1: ("y", 1), 2: ("y", 2)})
    repo.switch("other")
    write(repo, {**rows, 1: ("y", 1), 3: ("y", 3)})
    run_git("merge", "--no-edit", "main", cwd=repo.path)
    soundness._sound.clear()
    monkeypatch.setattr(soundness, "_check", lambda *_: pytest.fail("all was looked at"))
    merged = Repo.open(repo.path)
    assert read(merged) == {**rows, 1: ("y", 1), 2: ("y", 2), 3: ("y", 3)}
