"""What we print of a diff is byte for byte what real Kart printed of it."""

import io
from dataclasses import replace

import pytest

from havasu_vc.writers import WriterOptions, writer_named
from tests.writers.kart_diffs import CASES, EXPECTED, read_diff

pytestmark = pytest.mark.skipif(not CASES, reason=f"no files printed by Kart in {EXPECTED}")


def printed(case: str, format_name: str, *, sort_meta: bool) -> str:
    diffs = read_diff(case)
    if sort_meta:
        # Kart's JSON has them in an order that changes from run to run, its lines sorted.
        diffs = (
            replace(diff, meta=tuple(sorted(diff.meta, key=lambda change: change.name)))
            for diff in diffs
        )
    out = io.StringIO()
    writer_named(format_name)(diffs, out, WriterOptions())
    return out.getvalue()


@pytest.mark.parametrize("case", CASES)
def test_json(case: str) -> None:
    expected = (EXPECTED / f"{case}.json").read_bytes()

    assert printed(case, "json", sort_meta=False).encode() == expected


@pytest.mark.parametrize("case", CASES)
def test_json_lines(case: str) -> None:
    expected = (EXPECTED / f"{case}.json-lines").read_bytes()

    assert printed(case, "json-lines", sort_meta=True).encode() == expected


@pytest.mark.parametrize(
    "case", [case for case in CASES if (EXPECTED / f"{case}.geojson").exists()]
)
def test_geojson(case: str) -> None:
    expected = (EXPECTED / f"{case}.geojson").read_bytes()

    assert printed(case, "geojson", sort_meta=False).encode() == expected
