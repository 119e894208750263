import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.writers import WRITERS, JsonStyle, WriterOptions, writer_named
from tests.support.golden import Golden
from tests.writers.cases import CASES, COMMIT, diffs

GOLDEN = Path(__file__).parents[2] / "fixtures" / "golden" / "diff"
FORMATS = sorted(set(WRITERS) - {"quiet", "html", "page"})
"""A page is our script for the most part; `tests/review/page` reads what is in it."""


def printed(case: str, name: str, options: WriterOptions) -> str:
    out = io.StringIO()
    writer_named(name)(diffs(case), out, options)
    return out.getvalue()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("case", sorted(CASES))
def test_output(case: str, name: str, golden: Golden) -> None:
    options = WriterOptions()
    if name == "geojson" and case == "added-and-removed":
        with pytest.raises(InvalidArgumentError, match="GeoJSON holds one dataset"):
            printed(case, name, options)
        return

    golden(printed(case, name, options), GOLDEN / case / f"expected.{name}")


def test_two_changed_datasets_are_no_collection_to_kart() -> None:
    described = [replace(diff, changes=iter(())) for diff in diffs("schema")]
    both = [replace(diff, path=f"a/{diff.path}") for diff in diffs("types")] + described
    assert described[0].meta and len(both) == 2
    with pytest.raises(InvalidArgumentError, match="GeoJSON holds one dataset"):
        writer_named("geojson")(both, io.StringIO(), WriterOptions(as_kart=True))

    both[0] = replace(next(diffs("types")), path="a")
    writer_named("geojson")(both, io.StringIO(), WriterOptions())


@pytest.mark.parametrize("name", ["json", "json-lines", "patch", "text"])
def test_a_commit_comes_first(name: str, golden: Golden) -> None:
    options = WriterOptions(commit=COMMIT, json_style=JsonStyle.COMPACT)

    golden(printed("schema", name, options), GOLDEN / "commit" / f"expected.{name}")


def test_colors(golden: Golden) -> None:
    options = WriterOptions(color=True, commit=COMMIT)

    golden(printed("schema", "text", options), GOLDEN / "schema" / "expected.colors")


@pytest.mark.parametrize("name", ["json", "json-lines", "geojson"])
def test_halves_left_out(name: str, golden: Golden) -> None:
    options = WriterOptions(delta_filter=frozenset({"+", "--"}))

    golden(printed("types", name, options), GOLDEN / "halves" / f"expected.{name}")


@pytest.mark.parametrize("name", ["json", "geojson", "patch"])
@pytest.mark.parametrize("case", ["types", "schema", "hostile", "nothing", "keyless"])
def test_styles_differ_in_layout_alone(case: str, name: str) -> None:
    pretty, compact, tight = (
        printed(case, name, WriterOptions(json_style=style)) for style in JsonStyle
    )
    value = json.loads(pretty)

    assert pretty == json.dumps(value, indent=2) + "\n"
    assert compact == json.dumps(value) + "\n"
    assert tight == json.dumps(value, separators=(",", ":")) + "\n"
