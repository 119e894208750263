"""The reference in the documentation is that of the functions as they are."""

import inspect
from pathlib import Path

import havasu_vc.spark
from havasu_vc.geo.functions.all_functions import FUNCTIONS
from havasu_vc.spark.functions import format_functions
from tests.support.golden import Golden

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "sql-functions.md"


def test_the_reference_is_up_to_date(golden: Golden) -> None:
    golden(format_functions(), REFERENCE)


def test_the_reference_has_every_function() -> None:
    text = format_functions()

    assert [name for name in FUNCTIONS if f"| `{name}(" not in text] == []


def test_the_page_has_every_argument() -> None:
    page = (REFERENCE.parent / "spark.md").read_text("utf-8")
    for name in havasu_vc.spark.__all__:
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{name}("))
        shown = {
            part.partition("=")[0] for part in row.partition("(")[2].split(")`")[0].split(", ")
        }
        assert shown - {"*"} == set(inspect.signature(getattr(havasu_vc.spark, name)).parameters)
