"""DuckDB and GeoPandas read checkouts of drawn histories, after each commit, by value."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from pyiceberg.table import StaticTable

from havasu_vc import Repo
from havasu_vc.checkouts import clustered_versions
from havasu_vc.checkouts.requests import CheckoutRequest
from tests.conformance import ours
from tests.conformance.checkout_files import rows_by_duckdb, rows_of_files
from tests.conformance.comparing import same_rows
from tests.conformance.conditions import conditions, missed_by_duckdb, missed_by_pyiceberg
from tests.conformance.drawing import KINDS, Abilities, histories
from tests.conformance.duckdb_iceberg import Reader, reading
from tests.conformance.ours import NAME, folder, made
from tests.conformance.partitions import (
    Moment,
    Part,
    Parted,
    check_metadata,
    lost_columns,
    parted,
    spelt,
)
from tests.conformance.tables import KEY, History, State
from tests.conformance.tally import Tally
from tests.conformance.test_pyiceberg import check_read
from tests.serving.conftest import engines
from tests.support.examples import examples

__all__ = ["engines"]

# Bytes of one length are bytes of any in DuckDB; frames are of pandas, without UUIDs of Arrow's.
FOR_DUCKDB = Abilities(
    kinds=KINDS - {"fixed"},
    steps=ours.STEPS,
    added=KINDS - {"fixed", "uuid"},
    geometries=True,
)
FOR_GEOPANDAS = Abilities(kinds=KINDS - {"uuid"}, steps=ours.STEPS, geometries=True)

# Lists and maps are no partitions, and the tests of tables without have them.
FLAT = KINDS - {"list", "map"}

# Some columns are called as fields of partition specs are.
CALLED = ("n", "name", "höhe", "n_bucket", "n_bucket_2", "name_trunc", "name_bucket", "id_bucket")

pytestmark = pytest.mark.filterwarnings("ignore:The geo metadata indicate that column")
tried = examples(
    20,
    # A table that differs is told as it was drawn: a smaller one takes minutes to look for.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def duckdb(engines: Path) -> Iterator[Reader]:
    with reading(engines) as found:
        yield found


@pytest.fixture(scope="module")
def spatial(engines: Path) -> Iterator[Reader]:
    with reading(engines, "spatial") as found:
        yield found


def checked_out(place: Path, history: History) -> Iterator[tuple[Repo, State]]:
    """Check a table out, and yield each state that it then has."""
    repo = made(place, History(history.first, history.steps[:1]))
    repo.workspace.check_out()
    before = history.states[1]
    yield repo, before
    for step in history.steps[1:]:
        ours.apply(repo, step, before)
        before = step.applied(before)
        yield repo, before


@given(history=histories(FOR_DUCKDB))
@tried
def test_duckdb(history: History, duckdb: Reader, spatial: Reader, tally: Tally) -> None:
    with folder() as place:
        for repo, state in checked_out(place, history):
            rows = rows_by_duckdb(repo.workspace.root / NAME, state, duckdb, spatial)
            tally.case("DuckDB", "checkout", same_rows(rows, state, "DuckDB"))


@given(history=histories(FOR_GEOPANDAS))
@tried
def test_geopandas(history: History, tally: Tally) -> None:
    with folder() as place:
        for repo, state in checked_out(place, history):
            found = rows_of_files(repo.workspace.root / NAME, state)
            tally.case("GeoPandas", "checkout", same_rows(found, state, "GeoPandas"))


def parted_out(place: Path, drawn: Parted, *, brought: bool) -> Iterator[tuple[Repo, Moment]]:
    """Check a table out by a partition spec, and yield each state that it then has.

    With `brought` what a commit changes comes beside the sorted files, as in large tables.
    """
    repo: Repo | None = None
    with pytest.MonkeyPatch.context() as patch:
        if brought:
            patch.setattr(clustered_versions, "SMALL", 0)
        for moment in drawn.moments:
            if repo is None:
                repo = made(place, History(drawn.history.first, (moment.step,)))
            else:
                ours.apply(repo, moment.step, moment.before)
            if moment.asked is not None:
                by = spelt(moment.asked) or None
                wanted = CheckoutRequest(clustered=by is not None, dataset=NAME, partition_by=by)
                repo.workspace.check_out(wanted)
            check_metadata(repo.workspace.root / NAME, moment, fresh=not brought)
            yield repo, moment


@given(
    drawn=parted(replace(FOR_DUCKDB, kinds=FLAT - {"fixed"}, alike=3, names=CALLED)),
    brought=st.booleans(),
)
@tried
def test_duckdb_of_partitions(
    drawn: Parted, brought: bool, duckdb: Reader, spatial: Reader, tally: Tally
) -> None:
    with folder() as place:
        for repo, moment in parted_out(place, drawn, brought=brought):
            table, state = repo.workspace.root / NAME, moment.after
            rows = rows_by_duckdb(table, state, duckdb, spatial)
            tally.case("DuckDB", "partitioned checkout", same_rows(rows, state, "DuckDB"))
            if lost_columns(table):
                tally.theirs("DuckDB", "condition on partitions")
                continue
            for each in conditions(moment):
                if missed_by_duckdb(each, moment):
                    tally.theirs("DuckDB", "condition on partitions")
                    continue
                keys = spatial.read(table, each.sql).column(KEY).to_pylist()
                assert sorted(keys) == each.keys(state), each
                tally.case("DuckDB", "condition on partitions", len(keys))


@given(
    drawn=parted(replace(FOR_GEOPANDAS, kinds=FLAT - {"uuid"}, alike=3, names=CALLED)),
    brought=st.booleans(),
)
@tried
def test_geopandas_of_partitions(drawn: Parted, brought: bool, tally: Tally) -> None:
    with folder() as place:
        for repo, moment in parted_out(place, drawn, brought=brought):
            found = rows_of_files(repo.workspace.root / NAME, moment.after)
            count = same_rows(found, moment.after, "GeoPandas")
            tally.case("GeoPandas", "partitioned checkout", count)


@given(drawn=parted(replace(ours.ABLE, kinds=FLAT, alike=3, names=CALLED)), brought=st.booleans())
@tried
def test_pyiceberg_of_partitions(drawn: Parted, brought: bool, tally: Tally) -> None:
    with folder() as place:
        for repo, moment in parted_out(place, drawn, brought=brought):
            table = repo.workspace.root / NAME
            pyiceberg_finds(table, moment, tally, "partitioned checkout")
        if moment.parts:
            # Elsewhere the spec is one of columns as they are called now.
            parts = tuple(Part.of(part.column, part.transform) for part in moment.parts)
            by = spelt(parts)
            repo.workspace.check_out_to(
                place / "out", dataset=NAME, clustered=True, partition_by=by
            )
            called = frozenset(column.name for column in moment.after.columns)
            moment = replace(moment, parts=parts, once=True, called=called)
            check_metadata(place / "out", moment, fresh=True)
            pyiceberg_finds(place / "out", moment, tally, "partitioned checkout --to")


def pyiceberg_finds(table: Path, moment: Moment, tally: Tally, direction: str) -> None:
    """Check all rows of a table, and those that conditions keep, as PyIceberg reads them."""
    tally.case("PyIceberg", direction, check_read(str(table), moment.after, tally, direction))
    held = StaticTable.from_metadata(str(table))
    for each in conditions(moment):
        if missed_by_pyiceberg(each):
            tally.theirs("PyIceberg", "condition on partitions")
            continue
        scan = held.scan(row_filter=each.pyiceberg, selected_fields=(KEY,))
        keys = scan.to_arrow().column(KEY).to_pylist()
        assert sorted(keys) == each.keys(moment.after), each
        tally.case("PyIceberg", "condition on partitions", len(keys))
