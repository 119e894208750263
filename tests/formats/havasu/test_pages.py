"""What the format pages show is what the golden datasets hold."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from havasu_vc.datasets.havasu.keys import key_cache_path
from havasu_vc.formats.havasu.json_text import unpack
from havasu_vc.formats.havasu.schema import parse_columns
from tests.formats.havasu.golden import FIXTURES
from tests.model.test_hashing import VECTORS

PAGES = Path(__file__).parents[3] / "docs" / "format"
SHOWN = re.compile(
    r"^<!-- (?P<kind>fixture|packed|past|deletes|hexdump): (?P<path>\S+) -->\n"
    r"```\w*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
FOUND = [
    (page.name, match["kind"], match["path"], match["text"])
    for page in sorted(PAGES.glob("*.md"))
    for match in SHOWN.finditer(page.read_text(encoding="utf-8"))
]


def test_pages_show_real_bytes() -> None:
    assert {page for page, *_ in FOUND} >= {
        "deltas.md",
        "markers.md",
        "schema.md",
        "layout.md",
        "properties.md",
        "entries.md",
        "pointers.md",
        "delete-files.md",
        "key-cache.md",
    }


@pytest.mark.parametrize(
    ("kind", "path", "text"),
    [(kind, path, text) for _, kind, path, text in FOUND if kind in ("fixture", "packed", "past")],
)
def test_documents_are_those_of_the_fixture(kind: str, path: str, text: str) -> None:
    data = (FIXTURES / path).read_bytes().decode(errors="replace")
    if kind == "packed":
        value = unpack((FIXTURES / path).read_bytes(), path)
        data = json.dumps(value, ensure_ascii=False, indent=1)
    if kind == "past":
        past = unpack((FIXTURES / path).read_bytes(), path)["past"]
        data = next(document for document in past.values() if '"schema-id"' in document)
    at = 0
    parts = text.split("…\n")
    for part in parts:
        found = data.find(part.rstrip("\n"), at)
        assert found >= 0, f"{path} does not hold\n{part}"
        at = found + len(part.rstrip("\n"))
    assert len(parts) > 1 or data.rstrip("\n") == text.rstrip("\n")


@pytest.mark.parametrize(
    ("path", "text"), [(path, text) for _, kind, path, text in FOUND if kind == "deletes"]
)
def test_deleted_rows_are_those_of_the_fixture(path: str, text: str) -> None:
    shown = [json.loads(line) for line in text.splitlines()]
    rows = pq.read_table(FIXTURES / path).to_pylist()

    assert len(shown) == len(rows)
    for line, row in zip(shown, rows, strict=True):
        assert (line["file"], line["pos"]) == (row["file"], row["pos"])
        assert line["row"].items() <= row["row"].items()
        large = row["large"] and [
            {"field": item["field"], "sha256": item["sha256"].hex()} for item in row["large"]
        ]
        assert line["large"] == large


@pytest.mark.parametrize(
    ("path", "text"), [(path, text) for _, kind, path, text in FOUND if kind == "hexdump"]
)
def test_bytes_are_those_of_the_fixture(path: str, text: str) -> None:
    shown = "".join(line.partition(": ")[2].split("  ")[0] for line in text.splitlines())

    assert bytes.fromhex(shown) == (FIXTURES / path).read_bytes()


def test_the_page_lists_the_vectors() -> None:
    text = (PAGES / "digests.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\|[^|]*\|[^|]*\| `([0-9a-f]{16})` \|$", text, re.MULTILINE)

    assert listed[: len(VECTORS)] == [expected for *_, expected in VECTORS]


def test_the_name_of_a_key_cache_is_that_of_the_page() -> None:
    documents = {
        str(path.relative_to(FIXTURES / "edited" / "columns")): path.read_bytes()
        for path in (FIXTURES / "edited" / "columns").rglob("*")
        if path.is_file()
    }
    schema, _ = parse_columns(documents.items(), "columns")

    assert key_cache_path(Path(), "f", schema).name == "f-7b2ec57b4449e6a5"
