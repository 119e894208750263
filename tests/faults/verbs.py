"""The scenes, with those of git's everyday verbs and of the working copy in one file."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import shapely

from havasu_vc import Repo
from tests.faults.postgis import POSTGIS
from tests.faults.scenes import (
    BASE,
    BY_ID,
    HERE,
    MAIN,
    OLDER,
    TREES,
    Row,
    Scene,
    Story,
    Version,
    begin,
    changed,
    checked_out,
    commit_workspace,
    edit,
    edited_rows,
    import_replace,
    parquet,
    put,
    sides,
    some,
    story,
)
from tests.faults.scenes import SCENES as FIRST
from tests.repo.test_upgrading_format import old_repository
from tests.support.git import run_git
from tests.support.signing import signing_with_ssh
from tests.support.sound import LOCAL

__all__ = ["SCENES"]


def amend(folder: Path) -> Story:
    repo, versions = checked_out(folder)
    edit(repo)
    after = edited_rows(versions[-1])
    tables = {"points": after["points"], "trees": TREES}
    return Story({MAIN: versions}, {MAIN: (*versions[:-1], after)}, tables)


def rebase(folder: Path) -> Story:
    _, versions, merged = sides(folder)
    shared = versions[:-1]
    theirs = changed(shared[-1], some(6, 61, name="theirs"))
    return Story({MAIN: versions}, {MAIN: (*shared, theirs, merged)})


def pick(folder: Path) -> Story:
    """Two commits of another branch, one after the other."""
    repo, versions, merged = sides(folder)
    repo.switch("side")
    put(repo, some(8, 81, name="more"))
    repo.switch("main")
    return story(versions, merged, changed(merged, some(8, 81, name="more")))


def move(folder: Path) -> Story:
    _, versions = begin(folder)
    return story(versions, _moved(versions[-1]))


def _moved(version: Version) -> Version:
    return {"wells": version["points"], "trees": version["trees"]}


def remove(folder: Path) -> Story:
    _, versions = begin(folder)
    return story(versions, {"trees": TREES})


def living(folder: Path) -> tuple[Version, ...]:
    """Make a working copy, in which a row is updated, one deleted."""
    repo, versions = begin(folder)
    repo.workspace.create_living(str(folder / "copy.gpkg"))
    with closing(sqlite3.connect(folder / "copy.gpkg")) as database, database:
        triggers = database.execute(
            "SELECT name FROM sqlite_master WHERE name LIKE 'rtree%' AND type = 'trigger'"
        )
        for (name,) in triggers.fetchall():
            database.execute(f'DROP TRIGGER "{name}"')
        database.execute("UPDATE points SET name = 'edited' WHERE id = 5")
        database.execute("DELETE FROM points WHERE id = 6")
    return versions


def commit_living(folder: Path) -> Story:
    versions = living(folder)
    geom, _, number = versions[-1]["points"][5]
    return story(versions, changed(versions[-1], {5: (geom, "edited", number)}, gone=(6,)))


def restore_living(folder: Path) -> Story:
    return story(living(folder))


def clean_copy(folder: Path) -> Story:
    """A working copy without edits, and a branch beside main."""
    repo, versions, _ = sides(folder)
    repo.workspace.create_living(str(folder / "copy.gpkg"))
    return story(versions)


def merge_living(folder: Path) -> Story:
    repo, versions, merged = sides(folder)
    repo.workspace.create_living(str(folder / "copy.gpkg"))
    return story(versions, merged)


def moved_copy(folder: Path) -> Story:
    """A working copy of a repository of Kart's, where the one elsewhere goes."""
    repo = Repo.init(folder / "repo", kart=True, settings=LOCAL)
    repo.import_(parquet(folder / "points.parquet", BASE), options=BY_ID)
    repo.workspace.create_living(str(folder / "repo" / "old.gpkg"))
    return story(({"points": BASE},))


def merge_signed(folder: Path) -> Story:
    repo, versions, merged = sides(folder)
    for name, value in signing_with_ssh(folder).items():
        run_git("config", name, value, cwd=repo.path)
    return story(versions, merged)


def upgrade(folder: Path) -> Story:
    """A dataset of format 1, as `fixtures/format/old` has it, becomes one of format 2."""
    old_repository(folder / "repo")
    names = {1: "Albert", 2: "The Domain", 3: "short", 4: "Western Springs"}
    point = shapely.to_wkb(shapely.Point(1, 2), flavor="iso")
    rows: dict[int, Row] = {key: (point, name, None) for key, name in names.items()}
    rows |= {6: (None, "Myers", None), 7: (None, "Point Chevalier", None)}
    return story(({OLDER: {}},), {"parcels": rows})


def export(folder: Path) -> Story:
    _, versions = begin(folder)
    return story(versions)


@contextmanager
def by_owners() -> Iterator[None]:
    """Have small tables dealt with as large ones: by owners of intervals of keys."""
    from havasu_vc.datasets.havasu import diff
    from havasu_vc.history import (
        merge_datasets,
        owned_changes,
        owned_deletes,
        owned_edits,
        owned_merges,
    )
    from havasu_vc.workspace import incoming

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_datasets, "LEAST_ROWS", -1)
        patch.setattr(owned_edits, "OWNER_BYTES", 1)
        patch.setattr(owned_edits, "FEW_ROWS", 0)
        patch.setattr(owned_changes, "LEAST_ROWS", 0)
        patch.setattr(owned_deletes, "LEAST_ROWS", 0)
        patch.setattr(incoming, "SMALL_FILE", 1 << 40)
        for name in ("LEAST_BYTES", "MOST_BYTES"):
            patch.setattr(owned_merges, name, 1)
        for name in ("SMALL_ROWS", "SMALL_BYTES"):
            patch.setattr(diff, name, 0)
        yield


def merge_cells(folder: Path) -> Story:
    """Both sides change one row, each another cell, so that rows are merged."""
    repo, versions = begin(folder)
    repo.create_branch("side")
    geom, name, number = versions[-1]["points"][4]
    ours, theirs = {4: (geom, "ours", number)}, {4: (geom, name, 77)}
    put(repo, ours)
    repo.switch("side")
    put(repo, theirs)
    repo.switch("main")
    mine = changed(versions[-1], ours)
    return story((*versions, mine), changed(mine, {4: (geom, "ours", 77)}))


VERBS = (
    Scene("commit --amend", amend, (*HERE, "commit", "--amend", "-m", "m")),
    Scene("rebase", rebase, (*HERE, "rebase", "side"), undo=(*HERE, "rebase", "--abort")),
    Scene(
        "cherry-pick A..B",
        pick,
        (*HERE, "cherry-pick", "main..side"),
        again=False,
        undo=(*HERE, "cherry-pick", "--abort"),
    ),
    Scene("mv", move, (*HERE, "mv", "points", "wells"), (49,)),
    Scene("rm", remove, (*HERE, "rm", "points"), (49,)),
    Scene("commit (working copy)", commit_living, (*HERE, "commit", "-m", "m"), (44,)),
    Scene("restore (working copy)", restore_living, (*HERE, "restore"), (44,)),
    Scene("switch (working copy)", clean_copy, (*HERE, "switch", "side")),
    Scene("merge (working copy)", merge_living, (*HERE, "merge", "side")),
    Scene("stash push (working copy)", restore_living, (*HERE, "stash", "push"), (44,)),
    Scene("create-workingcopy", export, (*HERE, "create-workingcopy", "../copy.gpkg")),
    Scene(
        "create-workingcopy (moved)",
        moved_copy,
        (*HERE, "create-workingcopy", "--delete-existing", "../copy.gpkg"),
    ),
    Scene("create-workingcopy (anew)", clean_copy, (*HERE, "create-workingcopy", "-f")),
    Scene("upgrade", upgrade, (*HERE, "upgrade"), (44,)),
    Scene("merge (signed)", merge_signed, (*HERE, "merge", "side")),
    Scene("merge (owners)", merge_cells, (*HERE, "merge", "side"), within=by_owners),
    Scene(
        "commit (owners)", commit_workspace, (*HERE, "commit", "-m", "m"), (44,), within=by_owners
    ),
    Scene("export (file)", export, (*HERE, "export", "points", "out.gpkg", "--overwrite")),
    *(
        Scene(
            f"export ({form})",
            export,
            (*HERE, "export", "points", "out", "--to", form, "--overwrite"),
        )
        for form in ("delta", "iceberg-v3", "parquet-dataset")
    ),
    Scene(
        "import --replace (owners)",
        import_replace,
        (*HERE, "import", "points.parquet", "--replace"),
        within=by_owners,
    ),
)
SCENES: Mapping[str, Scene] = {**FIRST, **{scene.name: scene for scene in (*VERBS, *POSTGIS)}}
