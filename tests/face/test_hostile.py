"""Whatever names, messages and values say, the views of work and merges show it as text."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from tests.cli.conftest import invoke, succeed
from tests.face.conftest import Served
from tests.face.test_page import shown
from tests.review.page.test_safety import EVIL
from tests.support.browser import Tab
from tests.support.git import run_git

TEXTS = [text.replace("\x00", "") for text in EVIL]
COLUMN = '<img src=x onerror=hacked=1> "q"'
DATASET = "it's &lt;b"
BRANCH = "<img/src=x/onerror=hacked=1>"
GEO = (
    '{"version": "1.1.0", "primary_column": "geom",'
    ' "columns": {"geom": {"encoding": "WKB", "geometry_types": ["Point"]}}}'
)


def write(path: Path, ending: str, apart: float) -> None:
    """Write rows of which all values, keys and names are meant to be markup."""
    places = 174.5 + np.arange(len(TEXTS)) / 1000 + apart
    columns = {
        "id": pa.array(TEXTS),
        COLUMN: pa.array([text + ending for text in TEXTS]),
        "geom": pa.array(shapely.to_wkb(shapely.points(places, np.full(len(TEXTS), -41.0)))),
    }
    pq.write_table(pa.table(columns).replace_schema_metadata({"geo": GEO}), path)


def harmless(tab: Tab, *selectors: str) -> str:
    """Assert that nothing of the data is markup; return the text of what is shown."""
    for selector in selectors:
        tab.wait(f"document.querySelector('{selector}')")
    assert tab.run("typeof hacked") == "undefined"
    assert tab.run("document.images.length") == 0
    found = tab.run("document.querySelectorAll('main b, iframe, meta[http-equiv]').length")
    assert found == 0
    names = "[...document.querySelectorAll('*')].flatMap((e) => e.getAttributeNames())"
    assert [name for name in tab.run(names) if name.startswith("on")] == []
    return str(tab.run("document.querySelector('main').textContent"))


def test_names_messages_and_values_are_text(
    page: Tab, serving: Callable[[Path], Served], tmp_path: Path
) -> None:
    repo, file = tmp_path / "<b>repo", tmp_path / "rows.parquet"
    succeed(invoke(["init", repo]))
    take: list[str | Path] = ["-C", repo, "import", file, DATASET, "--primary-key", "id"]
    run_git("config", "user.name", COLUMN, cwd=repo)
    write(file, "", 0)
    succeed(invoke([*take, "-m", EVIL[0]]))
    run_git("branch", BRANCH, cwd=repo)
    for branch, ending, apart in ((BRANCH, " </td><b>theirs", 0.0004), ("main", "<b>ours", 0)):
        succeed(invoke(["-C", repo, "switch", branch]))
        write(file, ending, apart)
        succeed(invoke([*take, "--replace", "-m", EVIL[1]]))
    succeed(invoke(["-C", repo, "create-workingcopy"]))
    with sqlite3.connect(next(repo.glob("*.gpkg"))) as copy:
        for name in ("IsEmpty", "MinX", "MaxX", "MinY", "MaxY"):
            copy.create_function(f"ST_{name}", 1, lambda shape: None)
        (table,) = copy.execute("SELECT table_name FROM gpkg_contents").fetchone()
        named, column = (each.replace('"', '""') for each in (table, COLUMN))
        copy.execute(f'UPDATE "{named}" SET "{column}" = \'<b>edited\'')

    served = serving(repo)
    page.go(served.address)
    place = f"dataset={quote(DATASET)}&row={quote(TEXTS[1])}"
    shown(page, served, f"data?{place}&against={quote(BRANCH)}")
    text = harmless(page, ".grid tbody tr[data-row]", ".past h3")
    assert TEXTS[1] in text
    assert BRANCH in text
    shown(page, served, "work")
    text = harmless(page, "main tbody tr")
    assert COLUMN in text
    assert "<b>edited" in text
    succeed(invoke(["-C", repo, "restore"]))
    assert "conflict" in succeed(invoke(["-C", repo, "merge", BRANCH])).output
    shown(page, served, "conflicts")
    text = harmless(page, ".choices tbody tr")
    assert "</td><b>theirs" in text
    assert "<b>ours" in text
    assert BRANCH in text
