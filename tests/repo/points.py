"""A small repository of points to try commits on: rows by key go in and come out as dicts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc import Repo
from havasu_vc.exchange.source import SourceOptions
from tests.support.git import git_fsck, run_git
from tests.support.templates import LOCAL, again, empty_repo

Row = tuple[str | None, int | None]
Rows = Mapping[int, Row]

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("height", pa.int32())])


def table(rows: Rows) -> pa.Table:
    """Return rows as an Arrow table."""
    return pa.table(
        [list(rows), [row[0] for row in rows.values()], [row[1] for row in rows.values()]],
        schema=SCHEMA,
    )


def make(
    path: Path, rows: Rows, *, dataset: str = "points", bare: bool = False, kart: bool = False
) -> Repo:
    """Make a repository with one dataset."""

    def anew(place: Path) -> None:
        made = empty_repo(place, bare=bare, kart=kart, settings=LOCAL)
        add(made, place.parent, rows, dataset)

    again(("points", repr(rows), dataset, bare, kart and path.name), anew, path)
    return Repo.open(path, settings=LOCAL)


def add(repo: Repo, folder: Path, rows: Rows, dataset: str) -> None:
    """Import a dataset."""
    file = folder / f"{dataset.replace('/', '-')}.parquet"
    pq.write_table(table(rows), file)
    repo.import_(file, dataset, options=SourceOptions(primary_key=("id",)))


def write(repo: Repo, rows: Rows, *, dataset: str = "points", message: str = "Write") -> str:
    """Commit that a dataset holds just these rows, as far as they differ, and return the commit."""
    now = read(repo, dataset=dataset)
    gone = [key for key in now if key not in rows]
    come = {key: row for key, row in rows.items() if now.get(key) != row}
    if gone:
        keys = pa.table({"id": pa.array(gone, pa.int64())})
        repo.write(dataset, keys, mode="delete", message=message)
    if come:
        repo.write(dataset, table(come), message=message)
    commit = repo.head().commit
    assert commit is not None
    return commit


def read(repo: Repo, revision: str = "HEAD", *, dataset: str = "points") -> dict[int, Any]:
    """Return the rows of a dataset, each by its key as a tuple of the other columns."""
    found = repo.table(dataset, revision).to_arrow().to_pylist()
    rows = {row.pop("id"): tuple(row.values()) for row in found}
    return dict(sorted(rows.items()))


def add_column(repo: Repo, name: str, *, dataset: str = "points") -> None:
    """Commit another column."""
    columns = repo.get_meta(dataset, ["schema.json"])["schema.json"]
    columns.append({"name": name, "dataType": "text"})
    repo.set_meta(dataset, {"schema.json": columns})


def assert_clean(repo: Repo) -> None:
    """Check that git has nothing to say, and that nothing is found wrong."""
    if not repo.git.is_bare:
        assert run_git("status", "--porcelain", cwd=repo.path) == ""
    assert git_fsck(repo.git.common_directory, "--no-dangling") == ""
    for path in repo.datasets():
        repo.dataset(path).check_guard()


def merged_rows(
    base: Rows, ours: Rows, theirs: Rows
) -> tuple[dict[int, tuple[object, ...]], set[int]]:
    """Merge dicts cell by cell; return the rows and the keys in conflict."""
    rows: dict[int, tuple[object, ...]] = {}
    clashes = set()
    for key in base.keys() | ours.keys() | theirs.keys():
        old, mine, other = base.get(key), ours.get(key), theirs.get(key)
        if mine == other or other == old:
            result: tuple[object, ...] | None = mine
        elif mine == old:
            result = other
        elif mine is None or other is None or old is None:
            clashes.add(key)
            continue
        else:
            result = ()
            for before, left, right in zip(old, mine, other, strict=True):
                if before != left and before != right and left != right:
                    clashes.add(key)
                result += (right if left == before else left,)
        if result is not None:
            rows[key] = result
    return {key: row for key, row in sorted(rows.items()) if key not in clashes}, clashes


def merged_values(
    base: dict[int, str], ours: dict[int, str], theirs: dict[int, str], otherwise: dict[int, str]
) -> dict[int, str]:
    """Return the rows of a merge; where both sides differ from the base and each other, some."""
    found = {}
    for key in base.keys() | ours.keys() | theirs.keys():
        before, mine, other = (side.get(key) for side in (base, ours, theirs))
        merged = (
            other if mine == before else mine if other in (before, mine) else otherwise.get(key)
        )
        if merged is not None:
            found[key] = merged
    return found
