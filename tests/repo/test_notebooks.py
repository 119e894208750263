"""What notebooks show: a repository, a table, a log, a diff and a review, as HTML that is safe."""

import base64
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapely

from havasu_vc import Repo
from havasu_vc.exchange.source import SourceOptions
from tests.repo.tables import BY_ID, write
from tests.support.sound import LOCAL

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</td></table><iframe src=//evil>",
    "a\u202eb\x1b[31m&amp;",
]
ALLOWED = {"div", "b", "span", "img", "table", "thead", "tbody", "tr", "th", "td"}
PLACES = {"style", "scope", "src", "alt", "width", "height"}


class Reader(HTMLParser):
    """Takes HTML apart: its text, and whatever could act or ask for something."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.pictures: list[str] = []
        self.odd: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ALLOWED:
            self.odd.append(tag)
        for name, value in attrs:
            if name not in PLACES:
                self.odd.append(f"{tag} {name}")
            if name == "src":
                head, _, body = (value or "").partition(",")
                if head != "data:image/svg+xml;base64":
                    self.odd.append(head)
                self.pictures.append(base64.b64decode(body).decode())

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(value: Any) -> Reader:
    reader = Reader()
    reader.feed(value._repr_html_())
    assert reader.odd == []
    for picture in reader.pictures:
        assert set(re.findall(r"<(\w+)", picture)) <= {"svg", "rect", "path"}
    return reader


def text_of(value: Any) -> str:
    return " ".join(read(value).text)


@pytest.fixture
def city(tmp_path: Path) -> Repo:
    """Trees with places, two commits, and a branch beside."""
    repo = Repo.init(tmp_path / "city", settings=LOCAL)
    file = tmp_path / "trees.csv"
    file.write_text("id,name,lon,lat\n1,rimu,174.1,-41\n2,totara,174.2,-41\n3,kauri,174.3,-41\n")
    options = SourceOptions(primary_key=("id",), crs="EPSG:4326")
    repo.import_(str(file), "trees", options=options, message="Trees")
    file.write_text("id,name,lon,lat\n1,rimu,174.1,-41\n2,Tōtara,174.25,-41\n4,nīkau,174.4,-41\n")
    repo.import_(str(file), "trees", options=options, replace=True, message="Survey")
    repo.create_branch("side")
    return repo


def test_a_diff_tells_what_changed_and_where(city: Repo) -> None:
    shown = read(city.diff("HEAD^...HEAD"))
    text = " ".join(shown.text)

    assert "HEAD^...HEAD : 1 inserted, 1 updated, 1 deleted in 1 dataset" in text
    assert "name: totara → Tōtara" in text
    assert "0 → 0" not in text  # a diff does not count the rows of a table
    (picture,) = shown.pictures
    for colour in ("#d55e00", "#009e73", "#cc79a7", "#0072b2"):
        assert f'stroke="{colour}"' in picture
    assert {"before", "after", "inserted", "deleted"} <= {part.strip() for part in shown.text}


def test_to_show_a_diff_leaves_it_to_be_read(city: Repo) -> None:
    diffs, commits = city.diff("HEAD^...HEAD"), city.log()

    assert diffs._repr_html_() == diffs._repr_html_()
    assert [len(batch) for diff in diffs for batch in diff.changes] == [3]
    commits._repr_html_()
    assert [each.message for each in commits] == ["Survey", "Trees"]


def test_one_dataset_of_a_diff_shows_itself(city: Repo) -> None:
    (diff,) = city.diff("HEAD^...HEAD")
    text = text_of(diff)

    assert "1 inserted, 1 updated, 1 deleted in 1 dataset" in text
    assert "name: totara → Tōtara" in text
    assert len(read(diff).pictures) == 1
    assert [len(batch) for batch in diff.changes] == [3]  # to show it has read nothing of it
    (diff,) = city.diff("HEAD^...HEAD", ["trees:feature:2"])
    assert "1 updated in 1 dataset" in text_of(diff)


def test_a_commit_shows_itself_and_what_it_changed(city: Repo) -> None:
    commit, diffs = city.show()
    text = text_of(commit)

    assert "Survey" in text
    assert commit.id[:10] in text
    assert commit.author_name in text
    assert "HEAD -> main" in text
    assert "1 inserted, 1 updated, 1 deleted" in text_of(diffs)
    assert [diff.path for diff in diffs] == ["trees"]
    (newest, _) = city.log()
    assert "Survey" in text_of(newest)
    city.set_meta("trees", {"title": "T"}, message="A title\n\nwith <b>words</b>\nbelow")
    assert "with <b>words</b>" in text_of(city.commit_info())


def test_a_filter_counts_for_what_is_shown(city: Repo) -> None:
    assert "1 updated in 1 dataset" in text_of(city.diff("HEAD^...HEAD", ["trees:feature:2"]))
    assert "0 datasets" in text_of(city.diff("HEAD...HEAD"))


def test_a_review_shows_the_same_and_its_findings(city: Repo) -> None:
    text = text_of(city.review("HEAD^..HEAD"))

    assert "HEAD^..HEAD" in text
    assert "3 → 3 rows" in text
    assert "name: totara → Tōtara" in text


def test_a_table_shows_its_first_rows_and_their_places(city: Repo) -> None:
    shown = read(city.table("trees"))
    text = " ".join(shown.text)

    assert "trees at HEAD: 3 rows, 5 columns, by id" in re.sub(r"\s+", " ", text)
    assert "Tōtara" in text
    assert "POINT (174.25 -41)" in text
    assert len(shown.pictures) == 1
    assert "all rows" in text


def test_a_repository_shows_branches_datasets_and_commits(city: Repo) -> None:
    text = text_of(city)

    for part in ("city", "side", "trees", "3", "Survey", "Trees"):
        assert part in text


def test_an_empty_repository_says_so(tmp_path: Path) -> None:
    assert "no commit yet" in text_of(Repo.init(tmp_path / "none", settings=LOCAL))


def test_hostile_values_are_text(city: Repo) -> None:
    names = {number + 10: text for number, text in enumerate(HOSTILE)}
    rows = city.table("trees").to_arrow()
    evil = rows.take([0] * len(names)).set_column(0, "id", pa.array(list(names), rows["id"].type))
    evil = evil.set_column(1, "name", pa.array(list(names.values())))
    city.write("trees", evil, message=HOSTILE[0])
    city.write("trees", evil.set_column(1, "name", pa.array(HOSTILE[::-1])), message=HOSTILE[2])
    city.set_meta("trees", {"title": HOSTILE[0]}, message=HOSTILE[1])

    (diff,), (commit, _) = city.diff("HEAD~2...HEAD"), city.show("HEAD^")
    shown = (city, city.log(), city.table("trees"), city.diff("HEAD~2...HEAD"), diff, commit)
    for value in shown:
        text = text_of(value)
        assert "<" in text  # it is there, as text
        assert "\u202e" not in text
        assert "\x1b" not in text
    assert HOSTILE[0] in text_of(city.table("trees"))
    assert HOSTILE[0] in text_of(city.review("HEAD~2..HEAD"))


@pytest.mark.thorough
def test_what_is_shown_is_bounded_whatever_the_table(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "wide", settings=LOCAL)
    count = 5000
    shapes = [shapely.to_wkb(shapely.Point(n, 0).buffer(9, 64)) for n in range(count)]
    columns = {f"{HOSTILE[0]}{n}": ["x" * 300] * count for n in range(20)}
    table = pa.table({"id": range(count), **columns, "shape": pa.array(shapes, pa.binary())})
    file = write(tmp_path / "wide.parquet", table)
    repo.import_(file, options=BY_ID, message="m" * 9000)

    for value in (repo, repo.log(), repo.table("wide"), repo.diff()):
        assert len(value._repr_html_()) < 300_000
    text = text_of(repo.table("wide"))
    assert "and 4,990 more rows and 6 more columns" in text
