"""Keys whose type was widened: files of before and after are read as one table.

Whatever rows are written, on whichever branch and in whichever type, every way to find
rows by their keys holds what a dict of them does.
"""

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from havasu_vc import Repo
from havasu_vc.exchange.source import SourceOptions
from tests.datasets.thresholds import tiny_thresholds
from tests.repo.points import make
from tests.support.examples import examples
from tests.support.sound import LOCAL

pytestmark = pytest.mark.few(2)

Rows = dict[Any, int]


def decimals(places: int) -> st.SearchStrategy[Decimal]:
    most = 10**places - 1
    return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-2)) | st.sampled_from(
        [Decimal(most).scaleb(-2), Decimal(-most).scaleb(-2), Decimal("0.00")]
    )


Kind = tuple[
    pa.DataType, st.SearchStrategy[Any], dict[str, int], pa.DataType, st.SearchStrategy[Any]
]
TEXT = st.text("abcé\U0001f600", max_size=20)
DAYS = st.dates(date(1600, 1, 1), date(2400, 1, 1))
MOMENTS = st.datetimes(datetime(1600, 1, 1), datetime(2400, 1, 1))
KINDS: dict[str, Kind] = {
    "int": (
        pa.int32(),
        st.integers(-(2**31), 2**31 - 1),
        {"size": 64},
        pa.int64(),
        st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**31, -(2**31) - 1, 2**53 + 1]),
    ),
    "decimal": (
        pa.decimal128(9, 2),
        decimals(9),
        {"precision": 10},
        pa.decimal128(10, 2),
        decimals(10),
    ),
    "long decimal": (
        pa.decimal128(5, 2),
        decimals(5),
        {"precision": 38},
        pa.decimal128(38, 2),
        decimals(36),
    ),
    "text": (pa.string(), TEXT, {}, pa.string(), TEXT),
    "date": (pa.date32(), DAYS, {}, pa.date32(), DAYS),
    "timestamp": (pa.timestamp("us"), MOMENTS, {}, pa.timestamp("us"), MOMENTS),
}


def table(rows: Rows, type_: pa.DataType, *, composite: bool) -> pa.Table:
    columns = {"key": pa.array(list(rows), type_), "value": pa.array(rows.values(), pa.int64())}
    if composite:
        columns = {"part": pa.array([1] * len(rows), pa.int32()), **columns}
    return pa.table(columns)


def held(repo: Repo, revision: str = "HEAD") -> Rows:
    found = repo.table("t", revision).to_arrow()
    rows = dict(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True))
    assert len(rows) == found.num_rows
    return rows


def differing(repo: Repo, revisions: str, before: Rows) -> Rows:
    """Return what a diff makes of some rows; each key comes once, and as it was."""
    after = dict(before)
    seen = set()
    for diff in repo.diff(revisions):
        for batch in diff.changes:
            for change in batch.data.to_pylist():
                old, new = change["old"], change["new"]
                key = (new or old)["key"]
                assert key not in seen
                seen.add(key)
                assert (None if old is None else old["value"]) == before.get(key)
                if new is None:
                    del after[key]
                else:
                    assert old is None or old["value"] != new["value"]
                    after[key] = new["value"]
    return after


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", list(KINDS))
@examples(3, phases=(Phase.explicit, Phase.generate))
@given(data=st.data(), composite=st.booleans(), widen_both=st.booleans())
def test_rows_are_found_whatever_their_key_was_written_as(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    data: st.DataObject,
    composite: bool,
    widen_both: bool,
) -> None:
    narrow, few, wider, wide, many = KINDS[kind]
    numbers = st.integers(0, 9)
    base: Rows = data.draw(st.dictionaries(few, numbers, min_size=2, max_size=12), "base")
    theirs: Rows = data.draw(
        st.dictionaries(few | st.sampled_from(list(base)), numbers, max_size=6)
    )
    added: Rows = data.draw(
        st.dictionaries(many | st.sampled_from(list(base)), numbers, min_size=1, max_size=8)
    )
    ours = {key: value for key, value in added.items() if key not in theirs}
    gone = [key for key in base if key not in theirs and key not in ours][:2]
    folder: Path = tmp_path_factory.mktemp("keys")
    key = ("part", "key") if composite else ("key",)

    def widen(repo: Repo) -> None:
        columns = repo.get_meta("t", ["schema.json"])["schema.json"]
        for column in columns:
            if column["name"] == "key":
                column.update(wider)
        if wider:
            repo.set_meta("t", {"schema.json": columns})

    def write(repo: Repo, rows: Rows, type_: pa.DataType, mode: str = "upsert") -> str:
        if rows:
            given_rows = table(rows, type_, composite=composite)
            if mode == "delete":
                given_rows = given_rows.drop_columns(["value"])
            repo.write("t", given_rows, mode=mode)
        return repo.resolve("HEAD").commit or ""

    with tiny_thresholds(diffs=True):
        repo = make(folder / "repo", {1: ("one", 1)})
        repo = Repo.open(repo.path, settings=LOCAL)
        pq.write_table(table(base, narrow, composite=composite), folder / "t.parquet")
        repo.import_(folder / "t.parquet", options=SourceOptions(primary_key=key))
        first = repo.resolve("HEAD").commit or ""
        repo.create_branch("dev")
        widen(repo)
        at_ours = write(repo, {k: v + 20 for k, v in ours.items()}, wide)
        write(repo, dict.fromkeys(gone, 0), narrow, "delete")
        mine = base | {k: v + 20 for k, v in ours.items()}
        mine = {k: v for k, v in mine.items() if k not in gone}
        assert held(repo) == mine
        assert differing(repo, f"{first}...HEAD", base) == mine
        repo.switch("dev")
        if widen_both:
            widen(repo)
        at_theirs = write(repo, {k: v + 40 for k, v in theirs.items()}, narrow)
        other = base | {k: v + 40 for k, v in theirs.items()}
        assert held(repo) == other
        assert differing(repo, "dev..main", other) == mine
        assert differing(repo, "main..dev", mine) == other
        repo.switch("main")
        repo.merge("dev")
        both = {k: v for k, v in (other | mine).items() if k not in gone}
        both |= {k: v + 40 for k, v in theirs.items()}
        assert held(repo) == both
        assert differing(repo, f"{first}..HEAD", base) == both
        for found in (base, ours, theirs):
            for one in list(found)[:2]:
                wanted = (1, one) if composite else one
                if one in both:
                    assert repo.row("t", wanted)["value"] == both[one]
        for line in repo.blame("t").rows():
            one = line.key[-1]
            commit = at_theirs if one in theirs else at_ours if one in ours else first
            assert line.commit is not None and line.commit.id == commit
        # Once more through the merged table, with the first type.
        again = {k: 99 for k in base if k in both}
        write(repo, again, narrow)
        assert held(repo) == both | again
        assert not list(repo.fsck(full=True))


def test_a_limit_of_a_wider_file_cuts_a_narrower_one(tmp_path: Path) -> None:
    base = {Decimal("-1.00"): 1, Decimal("0.01"): 2, Decimal("9999999.99"): 3}
    with tiny_thresholds(diffs=True, group_rows=1):
        repo = make(tmp_path / "repo", {1: ("one", 1)})
        rows = table(base, pa.decimal128(9, 2), composite=False)
        pq.write_table(rows, tmp_path / "t.parquet")
        repo.import_(tmp_path / "t.parquet", options=SourceOptions(primary_key=("key",)))
        columns = repo.get_meta("t", ["schema.json"])["schema.json"]
        columns[0]["precision"] = 10
        repo.set_meta("t", {"schema.json": columns})
        more = {Decimal("99999999.99"): 4, Decimal("0.01"): 5, Decimal("-99999999.99"): 6}
        repo.write("t", table(more, pa.decimal128(10, 2), composite=False))

        assert differing(repo, "HEAD~2...HEAD", base) == base | more
        assert differing(repo, "HEAD..HEAD~2", base | more) == base


@pytest.mark.parametrize("revisions", ["HEAD~2...HEAD", "HEAD..HEAD~2"])
def test_one_row_is_shown_where_its_key_was_narrower(tmp_path: Path, revisions: str) -> None:
    repo = make(tmp_path / "repo", {1: ("one", 1)})
    pq.write_table(table({1: 1, 2: 2}, pa.int32(), composite=False), tmp_path / "t.parquet")
    repo.import_(tmp_path / "t.parquet", options=SourceOptions(primary_key=("key",)))
    columns = repo.get_meta("t", ["schema.json"])["schema.json"]
    columns[0]["size"] = 64
    repo.set_meta("t", {"schema.json": columns})
    repo.write("t", table({1: 9, 2**40: 3}, pa.int64(), composite=False))

    for key in (1, 2**40):
        (diff,) = repo.diff(revisions, [f"t:feature:{key}"])
        changes = [change for batch in diff.changes for change in batch.data.to_pylist()]
        assert [(each["new"] or each["old"])["key"] for each in changes] == [key]
