"""Reviews made by hand, and texts that try to break a page."""

import shapely

from havasu_vc.model.bounds import Bounds
from havasu_vc.model.changes import ChangeKind
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.review.report import (
    Area,
    Cell,
    ColumnReview,
    ConflictCell,
    ConflictedRow,
    Conflicts,
    DatasetInConflict,
    DatasetReview,
    Flag,
    FlagKind,
    ItemInConflict,
    NumberShift,
    PolicyFinding,
    Review,
    Sample,
    Transition,
)

POINT = bytes.fromhex("010100000000000000008065400000000000804540")

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</code></td></table><h1>broken</h1>",
    "<!-- comment",
    "--> out of a comment",
    "&lt;b&gt; &amp; &#64;user",
    "[link](https://evil.example)",
    "![image](https://evil.example/x.png)",
    "[ref]: https://evil.example",
    "<https://evil.example>",
    "https://evil.example/path",
    "www.evil.example",
    "someone@evil.example",
    "@user and @org/team",
    "#1 org/repo#2 GH-3",
    "`",
    "``",
    "```\n# heading\n```",
    "a`b``c```d",
    "`@user`",
    "``@user``",
    " `x` ",
    "  ",
    "|",
    "a|b|c",
    "\\|",
    "\\\\|",
    "`|`",
    "\\",
    "ends with \\",
    "**bold** _em_ ~~gone~~ __x__",
    "# heading",
    "- item",
    "> quote",
    "---",
    "| a | b |\n|---|---|",
    "line\nbreak",
    "line\r\nbreak",
    "para\n\n\nbreak",
    "tab\tand\x0bvertical",
    "\x00nul",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202egnp.exe\u202c",
    "\u2066isolate\u2069 \u200f",
    "\u2028line\u2029paragraph",
    "\ufeffmark",
    "\ud800lone",
    "$x$ $$y$$ $`z`$",
    ":smile: :+1:",
    "<details open><summary>x",
    "<sub>",
    "<br>",
    "javascript:alert(1)",
    "<svg/onload=alert(1)>",
    "{{ template }} {% raw %}",
    "x" * 1_000_000,
    "`" * 1_000_000,
    "|" * 5_000,
    "\u202e" * 5_000,
)


def dataset(text: str, *, path: str = "parcels", samples: int = 1) -> DatasetReview:
    """Return a dataset in which everything that comes from data is one text."""
    cells = (Cell(text, text, f"{text}x"), Cell(text, None, text), Cell("plain", text, None))
    quoted = "`" + text.replace("`", "'")[:60] + "`"
    return DatasetReview(
        path,
        text,
        "changed",
        10,
        11,
        ChangeCounts(samples, samples, samples),
        words=(f"column {quoted} is added", f"not quoted {text}"),
        columns=(
            ColumnReview(
                text, 3, 1, 1, NumberShift(1.0, 2.0, 0.5, 3e6), (Transition(text, text, 3),)
            ),
        ),
        area=Area(Bounds(0, 0, 1, 1), Bounds(0, 0, 2, 2), Bounds(0, 0, 3, 3), text),
        flags=(Flag(FlagKind.NEW_NULLS, f"nulls in {quoted}", 2, (text, text)),),
        samples=tuple(
            Sample(kind, text, f"{quoted} changed", cells, POINT, POINT)
            for kind in ChangeKind
            for _ in range(samples)
        ),
    )


def hostile(text: str) -> Review:
    """Return a review in which everything that comes from data is one text."""
    return Review(
        text,
        text,
        (dataset(text, path=text),),
        notes=(text,),
        merge_base="0123456789abcdef",
        three_dots=True,
        findings=(PolicyFinding("max-deletes", f"of `{text}`", True, text, 3, (text,)),),
    )


def harmless() -> Review:
    """Return a review of the kinds of thing that there are."""
    changed = DatasetReview(
        "nz/parcels",
        "Parcels",
        "changed",
        1_200_000,
        1_199_940,
        ChangeCounts(40, 900, 100),
        words=("column `owner` (string) is added", "column `id` may no longer be null"),
        columns=(
            ColumnReview("area", 880, 2, 1, NumberShift(512.25, 498.5, -3.0, 12_000.0)),
            ColumnReview("kind", 20, transitions=(Transition("road", "rail", 18),)),
        ),
        area=Area(
            Bounds(1_570_000, 5_170_000, 1_580_000, 5_180_000),
            Bounds(1_090_000, 4_748_000, 2_090_000, 6_194_000),
            Bounds(1_090_000, 4_748_000, 2_091_000, 6_194_000),
            "EPSG:2193",
            30,
            1234.5,
            (172.62, -43.6, 172.75, -43.5),
        ),
        flags=(Flag(FlagKind.MASS_DELETE, "100 rows are deleted (0% of all)", 100, ("7", "9")),),
        samples=(
            Sample(ChangeKind.DELETE, "7", "deleted", (Cell("area", "12.5", None),), POINT),
            Sample(
                ChangeKind.UPDATE,
                "8",
                "`name` changed",
                (Cell("name", "12 Long Road", "12 Long Street"), Cell("kind", None, "rail")),
            ),
            Sample(ChangeKind.INSERT, "9", "inserted", (Cell("area", None, "3"),), None, POINT),
        ),
    )
    added = DatasetReview("roads", None, "added", 0, 12, ChangeCounts(12))
    removed = DatasetReview(
        "old",
        None,
        "removed",
        5,
        0,
        ChangeCounts(0, 0, 5),
        flags=(Flag(FlagKind.DATASET_REMOVED, "the dataset is removed with 5 rows"),),
    )
    missing = "data file `0123` is not here; its entries tell of 2 rows that come"
    absent = DatasetReview(
        "far/away",
        None,
        "changed",
        3,
        4,
        ChangeCounts(),
        flags=(Flag(FlagKind.UNVERIFIED, f"rows are not shown: {missing}"),),
        unread=missing,
    )
    return Review(
        "main",
        "feature",
        (absent, changed, removed, added),
        notes=("`feature` does not come after `main`",),
        merge_base="0123456789abcdef",
        three_dots=True,
        findings=(
            PolicyFinding(
                "max-deletes", "100 rows are deleted, more than 10", True, "nz/parcels", 100
            ),
            PolicyFinding(
                "geometry", "2 rows with a geometry that is not valid", False, "roads", 2
            ),
        ),
    )


def parcel(x: float, y: float, size: float = 0.0006) -> bytes:
    return bytes(shapely.to_wkb(shapely.box(x, y, x + size, y + size * 0.75)))


def conflicts(text: str = "12 Aro Street") -> Conflicts:
    """Return three rows, one that a side deleted, a title and the columns."""
    cells = (
        ConflictCell("owner", "A. Owner", text, "B. Buyer", True),
        ConflictCell("zone", "Residential 1", None, "Residential 1", False),
    )
    deleted = (ConflictCell("owner", "C. Clerk", "D. Doe", None, True),)
    places = (parcel(174.77, -41.29), parcel(174.7702, -41.2901), parcel(174.7699, -41.2897))
    rows = (
        ConflictedRow(text, "same-cell", "changed", "changed", cells, *places),
        ConflictedRow("204", "edit/delete", "changed", "deleted", deleted, places[0], places[1]),
        ConflictedRow("9", "insert/insert", "inserted", "inserted", cells[:1], None, *places[1:]),
    )
    items = (
        ItemInConflict("schema.json", columns={"height": ("name", "type")}),
        ItemInConflict("title", "Parcels", text, None),
    )
    commands = ("git switch survey", "havasu-vc pull origin main", "havasu-vc merge --continue")
    datasets = (DatasetInConflict("parcels", 1_200, items, rows), DatasetInConflict("roads", 1))
    return Conflicts("survey", "main", 1_201, 2, datasets, ("README.md",), None, commands)
