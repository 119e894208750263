"""Spark with Delta's own jar: it writes tables that come in, and reads ours, by value."""

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.conformance import ours
from tests.conformance.comparing import same_rows
from tests.conformance.delta_session import Asked, DeltaSession, NoDeltaError
from tests.conformance.drawing import KINDS, Abilities, histories
from tests.conformance.ours import BY_KEY, NAME, agrees, folder, made
from tests.conformance.tables import History, State
from tests.conformance.tally import Tally
from tests.support.spark import has_java
from tests.support.templates import LOCAL, empty_repo

PROGRAM = "Spark with Delta"
# Spark has neither times of day nor UUIDs nor bytes of one length.
HELD = KINDS - {"time", "uuid", "fixed"}
WRITES = Abilities(kinds=HELD, steps=ours.STEPS)
READS = Abilities(kinds=HELD, steps=ours.STEPS, geometries=True)
FILTERED = Abilities(
    kinds=frozenset({"int", "long", "double", "date", "decimal", "string"}),
    steps=ours.STEPS,
    # Before it, days and Spark's moments are of another calendar.
    first_day=dt.date(1600, 1, 1),
    odd_floats=False,
)
PROPERTIES = {
    "delta.feature.timestampNtz": "supported",
    "delta.enableTypeWidening": "true",
}

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.xdist_group("spark")]
# A table that differs is told as it was drawn: to look for a smaller one takes Spark minutes.
PHASES = (Phase.explicit, Phase.generate)
tried = settings(
    max_examples=6, phases=PHASES, suppress_health_check=list(HealthCheck), deadline=None
)


@pytest.fixture(scope="module")
def delta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeltaSession]:
    if not has_java():
        pytest.skip("no Java")
    try:
        session = DeltaSession(tmp_path_factory.mktemp("delta"))
    except NoDeltaError as error:
        pytest.skip(f"Spark has no jar of Delta: {str(error).splitlines()[-1:]}")
    yield session
    session.close()


@given(
    history=histories(WRITES),
    mapping=st.sampled_from(["name", "id"]),
    vectors=st.booleans(),
    checkpoints=st.sampled_from(["classic", "v2"]),
)
@tried
def test_import(
    history: History,
    mapping: str,
    vectors: bool,
    checkpoints: str,
    delta: DeltaSession,
    tally: Tally,
) -> None:
    with folder() as place:
        lake = place / "lake"
        properties = PROPERTIES | {
            "delta.columnMapping.mode": mapping,
            "delta.enableDeletionVectors": str(vectors).lower(),
            "delta.checkpointPolicy": checkpoints,
            "delta.checkpointInterval": "2",
        }
        delta.make(lake, history.first, properties)
        for step, before in zip(history.steps, history.states, strict=False):
            delta.apply(lake, step, before)
        if any((lake / "_delta_log").glob(f"{2:020}.checkpoint*")):
            for number in range(2):
                (lake / "_delta_log" / f"{number:020}.json").unlink()
        repo = empty_repo(place / "repo", settings=LOCAL)
        repo.import_(f"delta:{lake}", NAME, options=BY_KEY)
        tally.case(PROGRAM, "import", agrees(repo, history.last, "import"))


@given(history=histories(READS))
@tried
def test_export(history: History, delta: DeltaSession, tally: Tally) -> None:
    with folder() as place:
        repo = made(place, history)
        repo.export(NAME, place / "out", format="delta", plain=True)
        found = delta.rows(place / "out")
        tally.case(PROGRAM, "export", same_rows(found, history.last, PROGRAM))


ORDERED = (pa.int32(), pa.int64(), pa.float64(), pa.date32(), pa.string())


def conditions(state: State) -> dict[Asked, list[int]]:
    """Return conditions at the ends of columns, with the keys of the rows that meet them."""
    asked: dict[Asked, list[int]] = {}
    for column in state.columns:
        if (column.geo is None and column.type in ORDERED) or pa.types.is_decimal(column.type):
            name, values = column.name, [row[column.name] for row in state.rows.values()]
            present = [value for value in values if value is not None]
            if not present or any(value != value for value in present):
                continue
            rows = state.rows.items()
            for sign, end in (("<=", min(present)), (">=", max(present))):
                asked[name, sign, end] = [k for k, row in rows if row[name] == end]
            asked[name, "<", min(present)] = asked[name, ">", max(present)] = []
            asked[name, "is null", None] = [key for key, row in rows if row[name] is None]
    return asked


@given(history=histories(FILTERED))
@settings(tried, max_examples=2)  # each condition is a job
def test_statistics(history: History, delta: DeltaSession, tally: Tally) -> None:
    with folder() as place:
        repo = made(place, history)
        repo.export(NAME, place / "out", format="delta", plain=True)
        asked = conditions(history.last)
        found = delta.kept(place / "out", list(asked))
        for (name, sign, value), (keys, files) in zip(asked, found, strict=True):
            wanted = asked[name, sign, value]
            assert sorted(keys) == sorted(wanted), (name, sign, value)
            if sign in "<>" and not isinstance(value, str | Decimal):
                # Nothing is less than the least, and Delta reads no file to know that. Of a text
                # statistics have the first letters, of decimals nothing.
                assert files == 0, (name, sign, value)
        tally.case(PROGRAM, "statistics of an export", len(asked))
