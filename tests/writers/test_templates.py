"""Pages by a template such as Kart's, called `kart` and with `--html-template`."""

import html.parser
import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import FIRST, SECOND, invoke, succeed
from tests.support.git import run_git

TEMPLATE = "<html><title>${title}</title><script>${geojson_data}</script>costs $$5</html>"


class Parsed(html.parser.HTMLParser):
    """The text of each element of a page, by name."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.data = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        tag, attributes = self.open[-1] if self.open else ("", {})
        self.texts.setdefault(tag, []).append(data)
        if attributes.get("id") == "kart-data":
            self.data += data


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of Kart's whose last commit updates, deletes and inserts a row each."""
    folder = tmp_path_factory.mktemp("pages")
    repo, source = folder / "survey", folder / "points.csv"
    succeed(invoke(["init", "--kart", repo]))
    options = ("--primary-key", "id", "--csv-lon", "lon", "--csv-lat", "lat", "--crs", "EPSG:4326")
    source.write_text(FIRST)
    succeed(invoke(["-C", repo, "import", source, *options]))
    source.write_text(SECOND.replace("TWO", "</script><script>alert(1)</script>"))
    succeed(invoke(["-C", repo, "import", source, *options, "--replace"]))
    return repo


def printed(repo: Path, *arguments: str | Path) -> str:
    return succeed(invoke(["-C", repo, *arguments, "-o", "html"])).stdout


def collections(repo: Path, *arguments: str) -> dict[str, object]:
    shown = succeed(invoke(["-C", repo, *arguments, "-o", "geojson"])).stdout
    return {"points": json.loads(shown)}


def test_called_kart_the_page_has_the_data_where_karts_templates_look(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kart"])
    ends = [run_git("rev-parse", "--short=7", each, cwd=repo) for each in ("HEAD^", "HEAD")]
    titles = (" ... ".join(ends), ends[1])
    asked = (("diff", "HEAD^...HEAD"), ("show",))
    for arguments, title in zip(asked, titles, strict=True):
        page = Parsed(printed(repo, *arguments, "--output", "-"))
        attributes = next(found for tag, found in page.open if "id" in found)
        assert attributes == {"id": "kart-data", "type": "application/json"}
        assert json.loads(page.data) == collections(repo, *arguments)
        assert page.texts["title"][0] == f"survey: {title}"
    moved = json.loads(Parsed(printed(repo, "show", "--crs", "EPSG:3857", "--output", "-")).data)
    assert moved == collections(repo, "show", "--crs", "EPSG:3857")
    nothing = Parsed(printed(repo, "diff", "[EMPTY]...[EMPTY]", "--output", "-"))
    assert json.loads(nothing.data) == {}
    assert nothing.texts["title"][0] == "survey: [EMPTY] ... [EMPTY]"


def test_called_kart_a_page_is_written_where_kart_writes_it(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(sys, "argv", ["kart"])
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert printed(repo, "show") == ""
    page = repo / "DIFF.html"
    data = json.loads(Parsed(page.read_text()).data)
    page.unlink()
    assert data == collections(repo, "show")
    assert opened == [], "nobody sits at a terminal"


def test_a_template_of_ones_own(repo: Path, tmp_path: Path) -> None:
    template = tmp_path / "page.html"
    template.write_text(TEMPLATE)
    page = printed(repo, "diff", "HEAD^...HEAD", "--html-template", template)
    head, tail = "<html><title>survey: HEAD^...HEAD</title><script>", "</script>costs $5</html>"
    assert page.startswith(head) and page.endswith(tail)
    data = page.removeprefix(head).removesuffix(tail)
    assert json.loads(data) == collections(repo, "diff", "HEAD^...HEAD")
    assert "alert(1)" in data and not set("<>/") & set(data), "nothing in it ends the element"
    saved = tmp_path / "saved.html"
    written = ("diff", "HEAD^...HEAD", "--html-template", template, "--output", saved)
    assert printed(repo, *written) == "" and saved.read_text() == page


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("${title}", "has no place for the data, or two"),
        ("${geojson_data}${geojson_data}", "has no place for the data, or two"),
        ("${title} ${other} ${geojson_data}", "is no template: 'other'"),
        ("$ ${geojson_data}", "is no template: Invalid placeholder"),
    ],
)
def test_what_is_no_template_is_named(repo: Path, tmp_path: Path, text: str, why: str) -> None:
    template = tmp_path / "page.html"
    template.write_text(text)
    asked: list[str | Path] = ["-C", repo, "show", "-o", "html", "--html-template"]
    refused = invoke([*asked, template])
    assert refused.exit_code == 2 and why in refused.stderr and not refused.stdout
    assert invoke([*asked, tmp_path / "none.html"]).exit_code == 2
    assert invoke(["-C", repo, "show", "--html-template", template]).exit_code == 2
