"""The reference in the documentation is that of the functions as they are."""

from pathlib import Path

from havasu_vc.geo.functions.all_functions import FUNCTIONS
from havasu_vc.spark.functions import format_functions
from tests.support.golden import Golden

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "sql-functions.md"


def test_the_reference_is_up_to_date(golden: Golden) -> None:
    golden(format_functions(), REFERENCE)


def test_the_reference_has_every_function() -> None:
    text = format_functions()

    assert [name for name in FUNCTIONS if f"| `{name}(" not in text] == []
