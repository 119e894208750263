from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import InvalidFileError
from havasu_vc.review.policy import Check, Policy, Rules, parse_policy
from havasu_vc.review.policy_checking import DatasetCheck
from havasu_vc.review.summarising import Means, summarise
from tests.review.test_summarising import POINTS, row
from tests.writers.cases import batch, diff_of, header

FULL = b"""
[[dataset]]
path = "nz/*"
level = "warn"
max-deletes = 100
max-delete-share = 0.05
allow-removal = false
required-columns = ["owner"]
schema-changes = ["add-column", "reorder-columns"]
valid-geometry = true
bounds = [166, -48.5, 179, -34]
unique = [["name"], ["sheet", "number"]]

[[dataset.check]]
name = "area is positive"
sql = "area > 0"
level = "refuse"

[[dataset.check]]
sql = "a = 'b'"

[[dataset]]
"""


def test_everything() -> None:
    assert parse_policy(FULL) == Policy(
        (
            Rules(
                "nz/*",
                False,
                100,
                0.05,
                False,
                ("owner",),
                ("add-column", "reorder-columns"),
                True,
                (166.0, -48.5, 179.0, -34.0),
                (("name",), ("sheet", "number")),
                (Check("area is positive", "area > 0", True), Check("a = 'b'", "a = 'b'", False)),
            ),
            Rules(),
        )
    )


def test_nothing() -> None:
    assert parse_policy(b"# nothing\n") == Policy()


def test_which_datasets() -> None:
    policy = parse_policy(FULL)

    assert len(policy.of("nz/parcels")) == 2
    assert len(policy.of("roads")) == 1


WRONG = {
    "top": (b"\n[datasets]\n", "line 2: 'datasets' is not known here"),
    "top value": (b"level = 'warn'\n", "line 1: 'level' is not known here"),
    "key": (b"[[dataset]]\nmax-delete = 3\n", "line 2: 'max-delete' is not known here"),
    "second": (
        b"[[dataset]]\npath = 'a'\n# x\n[[dataset]]\npath = 'b'\n\npaths = 'c'\n",
        "line 7: 'paths' is not known here",
    ),
    "in a check": (
        b"[[dataset]]\n[[dataset.check]]\nsql = 'a'\n[[dataset.check]]\nsql = 'b'\nsqls = 1\n",
        "line 6: 'sqls' is not known here",
    ),
    "no sql": (b"[[dataset]]\n[[dataset.check]]\nname = 'a'\n", "line 2: a check needs `sql`"),
    "one bracket": (b"[dataset]\n", "line 1: write [[dataset]], with two brackets"),
    "level": (b"[[dataset]]\nlevel = 'stop'\n", "line 2: level must be refuse or warn"),
    "negative": (b"[[dataset]]\nmax-deletes = -1\n", "line 2: max-deletes must be a whole number"),
    "true is no number": (b"[[dataset]]\nmax-deletes = true\n", "must be a whole number"),
    "share": (b"[[dataset]]\nmax-delete-share = 5\n", "must be a number from 0 to 1"),
    "nan": (b"[[dataset]]\nmax-delete-share = nan\n", "must be a number from 0 to 1"),
    "bounds": (b"[[dataset]]\nbounds = [1, 2, 0, 3]\n", "line 2: bounds must be four numbers"),
    "schema": (b"[[dataset]]\nschema-changes = ['add']\n", "must be a list of add-column"),
    "unique": (b"[[dataset]]\nunique = ['a']\n", "must be a list of lists of names"),
    "empty name": (b"[[dataset]]\nrequired-columns = ['']\n", "must be a list of names"),
    "no TOML": (b"[[dataset]\n", "is not TOML: "),
    "no text": (b"\xff", "is not TOML: "),
}


@pytest.mark.parametrize(("data", "said"), WRONG.values(), ids=WRONG)
def test_errors_name_the_line(data: bytes, said: str) -> None:
    with pytest.raises(InvalidFileError) as caught:
        parse_policy(data)

    assert str(caught.value).startswith(".havasu/policy.toml")
    assert said in str(caught.value)


@given(st.text(st.sampled_from("[]dataset.check=\"'\n1,max-le# "), max_size=60))
def test_any_text_is_a_policy_or_an_error(text: str) -> None:
    try:
        parse_policy(text.encode())
    except InvalidFileError:
        pass


def test_only_the_row_that_cannot_be_read_is_out_of_bounds() -> None:
    side = header(POINTS)
    changes: list[tuple[Any, Any]] = [(None, row(n, 1, 2)) for n in range(40)]
    changes[7] = (None, row(7, shape=b"junk"))
    diff = diff_of(batch(POINTS, POINTS, *changes), old=side, new=side)
    (rules,) = parse_policy(b"[[dataset]]\nbounds = [0, 0, 5, 5]\nvalid-geometry = true").of(
        "roads"
    )
    check = DatasetCheck(rules, diff, rows_before=0, scan=None)
    summarise(diff, Means(), [check])

    assert [(found.rule, found.count, found.rows) for found in check.findings()] == [
        ("valid-geometry", 1, ("7",)),
        ("bounds", 1, ("7",)),
    ]
