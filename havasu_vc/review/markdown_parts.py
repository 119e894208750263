"""The lines of a review in Markdown: what each dataset, column and row says.

Lines of Markdown within a budget of bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from havasu_vc.model.bounds import Bounds
from havasu_vc.model.changes import ChangeKind
from havasu_vc.review.report import (
    Area,
    Cell,
    ColumnReview,
    DatasetReview,
    FlagKind,
    PolicyFinding,
    Review,
    Sample,
    Transition,
)
from havasu_vc.review.words import counts_words
from havasu_vc.writers.terminal import printable

__all__ = [
    "ROWS_HEADER",
    "VALUE",
    "Lines",
    "code_span",
    "commits_words",
    "covered_words",
    "finding_line",
    "heading",
    "headline",
    "marked",
    "overview_header",
    "overview_row",
    "sample_row",
    "sentence",
    "short_name",
    "size_of",
    "spread",
    "summary_lines",
    "table_row",
]

CELLS = 12
"""Cells of a row that are shown."""
WORLD = (-180.0, -90.0, 180.0, 90.0)
"""All of it, which says nothing of where a change is."""
SAME = 0.001
"""Areas are alike that differ by no more than this share."""
MOST_AUTHORS = 3
"""So many who made a change are named."""
COLUMNS = 20
"""Columns of a dataset that are told of."""
ROWS_HEADER = ("| | row | why | what |", "|---|---|---|---|")
_SCORE = re.compile(r" [\d.,]+ \w+$")
"""A distance at the end of a reason."""
_SHAPE = re.compile(r"[A-Z]+ (?:of [\d,]+ vertices|Z? ?\(|EMPTY)")
"""A geometry in words; what names a row comes before it."""
_WHOLE_ID = re.compile(r"\b([0-9a-f]{10})[0-9a-f]{30}\b")
_SIGNS = {ChangeKind.DELETE: "deleted", ChangeKind.INSERT: "new", ChangeKind.UPDATE: "changed"}


def short_name(revision: str) -> str:
    """Return the name of a revision with the ten digits of an id by which people know it.

    >>> short_name("0123456789abcdef0123456789abcdef01234567^")
    '0123456789^'
    """
    return _WHOLE_ID.sub(r"\1", revision)


def overview_header() -> tuple[str, str]:
    """Return the head of the table of all datasets."""
    return (
        "| dataset | rows before | inserted | updated | deleted | rows after | look at |",
        "|---|--:|--:|--:|--:|--:|---|",
    )


def overview_row(each: DatasetReview) -> str:
    """Return a dataset's row in the table of all."""
    state = "" if each.state == "changed" else f" {each.state}"
    counts = ["?"] * 3
    if each.unread is None:
        counts = [
            _number(count)
            for count in (each.counts.inserts, each.counts.updates, each.counts.deletes)
        ]
    odd = f"⚠️ {len(each.flags)}" if each.flags else ""
    return table_row(
        (
            code_span(each.path) + state,
            _rows(each, each.rows_before),
            *counts,
            _rows(each, each.rows_after),
            odd,
        )
    )


def _rows(each: DatasetReview, count: int | None) -> str:
    """Return how many rows a version has; of one that cannot be read that may not be known."""
    unknown = each.unread is not None and each.state == "changed" and not count
    return "?" if unknown or count is None else f"{count:,}"


def _number(count: int) -> str:
    return f"{count:,}" if count else ""


def heading(each: DatasetReview) -> str:
    """Return the title of a dataset's section."""
    title = f" – {code_span(each.title)}" if each.title else ""
    return f"### {code_span(each.path)}{title}"


def finding_line(finding: PolicyFinding) -> str:
    """Return what is against the policy, as one line."""
    sign = "❌" if finding.refuses else "⚠️"
    where = f"{code_span(finding.dataset)}: " if finding.dataset else ""
    return f"- {sign} {where}{sentence(finding.message)}{_keys(finding.rows)}"


def summary_lines(each: DatasetReview) -> Iterator[str]:
    """Yield what is said of a dataset, the gravest first."""
    for flag in each.flags:
        yield f"- ⚠️ {_stressed(flag.message)}{_keys(flag.rows)}"
    for words in each.words:
        yield f"- {sentence(words)}"
    told = any(flag.kind is FlagKind.DATASET_REMOVED for flag in each.flags)
    if each.state != "changed" and not told:
        rows = each.rows_after if each.state == "added" else each.rows_before
        yield f"- the dataset is {each.state}" + ("" if rows is None else f", {rows:,} rows")
    elif each.state == "changed" and each.counts.total:
        yield f"- rows: {counts_words(each.counts)}{_share(each)}"
    for column in each.columns[:COLUMNS]:
        yield f"- {_column(column)}"
    if len(each.columns) > COLUMNS:
        yield f"- {len(each.columns) - COLUMNS} more columns changed"
    if each.area is not None and each.area.touched is not None:
        yield f"- {_area(each.area)}"
    if each.area is not None and each.area.covered is not None:
        yield f"- {covered_words(*each.area.covered)}"


def _stressed(message: str) -> str:
    """Return a sentence with what comes before its colon in bold."""
    head, colon, rest = message.partition(": ")
    if head.count("`") % 2:  # the colon is part of a name
        head, colon, rest = message, "", ""
    return f"**{sentence(head)}**{colon}{sentence(rest)}"


def _share(each: DatasetReview) -> str:
    touched, rows = each.counts.updates + each.counts.deletes, each.rows_before
    share = touched / rows if rows else 0
    if share >= 1:
        return f" – all {rows:,} rows there were"
    return f" – {min(share, 0.999):.1%} of the {rows:,} rows there were" if share >= 0.001 else ""


def _keys(keys: Sequence[str]) -> str:
    return f": {', '.join(code_span(key, 40) for key in keys)}" if keys else ""


def _column(column: ColumnReview) -> str:
    rows = f"{column.changed:,} row" + ("" if column.changed == 1 else "s")
    parts = [f"{code_span(column.name)} changed in {rows}"]
    if column.emptied:
        parts.append(f"{column.emptied:,} of them to null")
    if column.filled:
        parts.append(f"{column.filled:,} from null")
    shift = column.numbers
    if shift is not None and None not in (shift.old_mean, shift.new_mean):
        now = f"now {shift.least:,.6g}"
        if shift.greatest != shift.least:
            now += f" to {shift.greatest:,.6g}"
        parts.append(f"mean {shift.old_mean:,.6g} → {shift.new_mean:,.6g}, {now}")
    if column.transitions:
        parts.append("; ".join(map(_transition, column.transitions)))
    return ", ".join(parts)


def _transition(each: Transition) -> str:
    times = f" {each.count:,} times" if each.count > 1 else ""
    return f"{_value(each.old)} → {_value(each.new)}{times}"


def _value(text: str | None) -> str:
    if text is None:
        return "null"
    return code_span(text, 100 if _SHAPE.match(text) else 40)


def _area(area: Area) -> str:
    crs = f" ({code_span(area.crs)})" if area.crs else ""
    parts = [f"area touched {_corners(area.touched)}{crs}"]
    if area.geographic is not None and area.geographic not in (_quadruple(area.touched), WORLD):
        west, south, east, north = area.geographic
        parts.append(
            f"in longitude and latitude {west:.6g} {south:.6g} to {east:.6g} {north:.6g}"
            + (", over the antimeridian" if west > east else "")
        )
    if area.before is not None and area.after is not None and area.before != area.after:
        parts.append(f"extent was {_corners(area.before)}, is {_corners(area.after)}")
    return "; ".join(parts)


def covered_words(gone: float, come: float) -> str:
    """Return how much ground goes and comes.

    >>> covered_words(25000.0, 24000.0)
    'inserted shapes cover 2.4 ha, deleted ones 2.5 ha'
    """
    if abs(come - gone) <= SAME * gone:
        return f"inserted shapes cover {_ground(come)}, as much as deleted ones"
    return f"inserted shapes cover {_ground(come)}, deleted ones {_ground(gone)}"


def _ground(metres: float) -> str:
    """Return an area with four digits that count."""
    for least, unit in ((1e7, "km²"), (1e4, "ha")):
        if metres >= least:
            return f"{metres / (1e6 if unit == 'km²' else 1e4):,.4g} {unit}"
    return f"{metres:,.0f} m²" if metres >= 100 else f"{metres:,.4g} m²"


def _quadruple(bounds: Bounds | None) -> tuple[float, ...]:
    return () if bounds is None else (bounds.xmin, bounds.ymin, bounds.xmax, bounds.ymax)


def _corners(bounds: Bounds | None) -> str:
    if bounds is None:
        return "nothing"
    return f"{bounds.xmin:.7g} {bounds.ymin:.7g} to {bounds.xmax:.7g} {bounds.ymax:.7g}"


def headline(review: Review) -> str:
    """Return in one line how much changed, and whether there is something to look at."""
    count = len(review.datasets)
    odd = sum(len(each.flags) for each in review.datasets)
    looks = (
        f"⚠️ **{odd:,} thing{'' if odd == 1 else 's'} to look at.**"
        if odd
        else "Nothing odd was seen."
    )
    rows = f"rows: {counts_words(review.counts)}" if review.counts.total else "no row changed"
    return f"{count:,} dataset{'' if count == 1 else 's'}, {rows}. {looks}"


def spread(samples: Sequence[Sample], most: int) -> tuple[list[Sample], list[Sample]]:
    """Return some rows, a few of each reason and no two alike, and the others."""
    queues: dict[str, list[Sample]] = {}
    seen: set[tuple[ChangeKind, tuple[Cell, ...]]] = set()
    for each in samples:
        if (each.kind, each.cells) not in seen:
            seen.add((each.kind, each.cells))
            queues.setdefault(_SCORE.sub("", each.reason), []).append(each)
    chosen: list[Sample] = []
    while len(chosen) < most and (left := [queue for queue in queues.values() if queue]):
        chosen += [queue.pop(0) for queue in left][: most - len(chosen)]
    first = set(map(id, chosen))
    rest = [each for each in samples if id(each) not in first]
    return [each for each in samples if id(each) in first], rest


def sample_row(sample: Sample) -> str:
    """Return a changed row as a row of a table."""
    # The key is in a column of its own.
    told = [
        each
        for each in sample.cells
        if sample.kind is ChangeKind.UPDATE or sample.key not in (each.old, each.new)
    ]
    told.sort(key=lambda cell: bool(_SHAPE.match(cell.new or cell.old or "")))
    cells = list(_cells(told[:CELLS], sample.kind))
    if len(told) > CELLS:
        cells.append(f"and {len(told) - CELLS} more columns")
    return table_row(
        (
            _SIGNS[sample.kind],
            _called(sample),
            sentence(sample.reason),
            "<br>".join(cells),
        )
    )


def _called(sample: Sample) -> str:
    """Return the key of a row, and what people call it where its cells do not tell that."""
    label = sample.label
    told = sample.kind is not ChangeKind.UPDATE or label in (sample.key, None)
    return code_span(sample.key, 60) + ("" if told else f" {code_span(str(label), 60)}")


def _cells(cells: Iterable[Cell], kind: ChangeKind) -> Iterator[str]:
    for cell in cells:
        name = code_span(cell.column, 60)
        if kind is ChangeKind.INSERT:
            yield f"{name} = {_value(cell.new)}"
        elif kind is ChangeKind.DELETE:
            yield f"{name} = {_value(cell.old)}"
        elif cell.old is None or cell.new is None or _SHAPE.match(cell.old):
            # Digits of places that differ say less than the places.
            yield f"{name}: {_value(cell.old)} → {_value(cell.new)}"
        else:
            old, new = marked(cell.old, cell.new)
            yield f"{name}: {old} → {new}"


# Text from strangers as Markdown that GitHub and GitLab show as it is.
#
# Values stand in code spans, in which no markup, mention, link, image or formula works; a run
# of backticks within is fenced by a longer one, and what would reverse or hide text is spelled
# out. Sentences of ours are plain words, with names from the data between backticks; a part
# of one that holds anything else than plain words becomes a code span too.

VALUE = 120
"""Values are shown up to so many characters."""
LOOK = 5000
"""So many characters are compared."""
_RUNS = re.compile(r"`+")
_PLAIN = re.compile(r"[\w .,:;()%+=?'→–-]*")
_BLOCK = re.compile(r"\s*([-+=:]|\d+[.)])")
_ADDRESS = re.compile(r"www\.|://|@", re.IGNORECASE)


def commits_words(review: Review) -> str:
    """Return who made a change, and when, as a sentence."""
    count, last = review.commit_count, review.commits[0]
    authors = list(dict.fromkeys(each.author for each in review.commits))
    names = [code_span(name, 40) for name in authors[:MOST_AUTHORS]]
    if len(authors) > len(names):
        names.append("others")
    words = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    said = code_span(last.subject, 80)
    if count == 1:
        return f"1 commit by {words} on {last.date}: {said}"
    return f"{count:,} commits by {words}, the last on {last.date}: {said}"


def code_span(text: str, longest: int = VALUE) -> str:
    """Return any text as a code span; `table_row` makes it fit for a table.

    >>> print(code_span("b`c @user"), code_span("`"))
    ``b`c @user`` `` ` ``
    """
    text = printable(text[: longest + 1])
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    if not text:
        return "(empty)"
    fence = "`" * (max((len(run) for run in _RUNS.findall(text)), default=0) + 1)
    # Markdown takes one space off where there is one at both ends.
    spaced = text[0] == text[-1] == " " and not text.isspace()
    pad = " " if spaced or "`" in (text[0], text[-1]) else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def sentence(text: str) -> str:
    """Return a sentence of ours, in which names from the data stand between backticks.

    >>> print(sentence("column `name` is added"), sentence("crs [a](b)"))
    column `name` is added `crs [a](b)`
    """
    parts = text.split("`", 1000)
    if len(text) > LOOK or len(parts) % 2 == 0 or _BLOCK.match(text):
        return code_span(text, 1000)
    return "".join(
        code_span(part) if odd else _plain(part)
        for part, odd in zip(parts, _alternating(), strict=False)
    )


def _alternating() -> Iterator[bool]:
    while True:
        yield False
        yield True


def _plain(text: str) -> str:
    if _PLAIN.fullmatch(text) and not _ADDRESS.search(text) and "__" not in text:
        return text.replace("_", "\\_")
    return code_span(text, 1000)


def table_row(cells: Iterable[str]) -> str:
    r"""Return a row of a table of Markdown.

    >>> print(table_row(["`a|b`", "c"]))
    | `a\|b` | c |
    """
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def marked(old: str, new: str) -> tuple[str, str]:
    """Return two texts, the part that differs in bold where much of both is the same.

    >>> print(*marked("12 Long Road", "12 Long Street"))
    `12 Long `**`Road`** `12 Long `**`Street`**
    """
    if max(len(old), len(new)) > VALUE:
        start = max(_common(old, new) - 20, 0)
        if start > 20:  # what differs would be cut off
            old, new = "…" + old[start:], "…" + new[start:]
        return code_span(old), code_span(new)
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    if start + end < 4 or 2 * (start + end) < min(len(old), len(new)):
        return code_span(old), code_span(new)
    return _emphasised(old, start, end), _emphasised(new, start, end)


def _emphasised(text: str, start: int, end: int) -> str:
    middle = text[start : len(text) - end]
    if not middle:
        return code_span(text)
    before, after = text[:start], text[len(text) - end :] if end else ""
    return "".join(
        (
            code_span(before) if before else "",
            f"**{code_span(middle)}**",
            code_span(after) if after else "",
        )
    )


def _common(first: str, second: str) -> int:
    for index, (left, right) in enumerate(zip(first[:LOOK], second[:LOOK], strict=False)):
        if left != right:
            return index
    return min(len(first), len(second), LOOK)


class Lines:
    """Lines within a budget of bytes; what does not fit is not added."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.texts: list[str] = []

    def add(self, *texts: str) -> bool:
        """Add some lines, all or none, and tell which."""
        size = size_of(texts)
        if size > self.room:
            return False
        self.room -= size
        self.texts += texts
        return True

    def add_each(self, texts: Iterable[str]) -> int:
        """Add lines for as long as they fit; return how many did not."""
        rest = iter(texts)
        left = 0
        for text in rest:
            if not self.add(text):
                left = 1 + sum(1 for _ in rest)
        return left


def size_of(texts: Iterable[str]) -> int:
    """Return how many bytes some lines are."""
    return sum(len(text.encode()) + 1 for text in texts)
