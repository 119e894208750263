"""A release that has another key: the dataset gets it, with the rows as the source has them."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, succeed

FIRST = "id,code,size\n1,A,10\n2,B,20\n3,C,30\n"
NEXT = "id,code,size\n1,A,10\n2,B,25\n4,D,40\n"
KINDS = ("havasu", "kart")


def keys_of(run: Run, dataset: str) -> list[str]:
    schema = json.loads(succeed(run("meta", "get", dataset, "schema.json", "-o", "json")).stdout)
    columns = schema[dataset]["schema.json"]
    return [each["name"] for each in columns if "primaryKeyIndex" in each]


def ids_of(run: Run, dataset: str) -> dict[str, str]:
    schema = json.loads(succeed(run("meta", "get", dataset, "schema.json", "-o", "json")).stdout)
    return {each["name"]: each["id"] for each in schema[dataset]["schema.json"]}


@pytest.fixture
def lots(tmp_path: Path, run: Run) -> Path:
    path = tmp_path / "lots.csv"
    path.write_text(FIRST)
    return path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", ["code", "code,size"])
def test_the_dataset_gets_the_key_and_the_rows(lots: Path, run: Run, kind: str, key: str) -> None:
    succeed(run("import", lots, "lots", "--primary-key", "id", "--as", kind))
    succeed(run("meta", "set", "lots", "title=Lots"))
    ids = ids_of(run, "lots")
    lots.write_text(NEXT)

    done = succeed(run("import", lots, "lots", "--replace", "--primary-key", key))

    was = f"lots: the key is ({key.replace(',', ', ')}) now, (id) before; every row is written anew"
    assert f"Note: {was}" in done.stderr.splitlines()
    assert "title changes" not in done.stderr
    assert keys_of(run, "lots") == key.split(",")
    assert ids_of(run, "lots") == ids
    assert sorted(run("cat", "lots").stdout.splitlines()) == sorted(NEXT.splitlines())
    assert run("meta", "get", "lots", "title").stdout.split()[-1] == "Lots"
    assert succeed(run("fsck")).exit_code == 0
    changed = json.loads(run("diff", "HEAD^", "HEAD", "-o", "json").stdout)
    rows = next(iter(changed.values()))["lots"]["feature"]
    inserts, deletes = (sum(side in each for each in rows) for side in "+-")
    told = next(
        line for line in done.stdout.splitlines() + done.stderr.splitlines() if "Imp" in line
    )
    assert f"{inserts} inserts, {deletes} deletes" in told
    assert "No row of lots differs" in run("import", lots, "lots", "--replace").stderr


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("rows", "options", "code", "said"),
    [
        ("1,A,10\n2,A,20\n", ["--primary-key", "code"], 23, "the key A is there twice"),
        ("1,A,10\n2,,20\n", ["--primary-key", "code"], 23, "code"),
        ("1,A,10\n", ["--primary-key", "nosuch"], 2, "there is no key column 'nosuch'"),
        ("1,A,10\n", ["--primary-key", "code", "--replace-ids", "A"], 20, "--replace-ids is not"),
        ("1,A,10\n", ["--no-primary-key"], 2, "lots has the key (id), not no key"),
    ],
)
def test_what_cannot_be_the_key_changes_nothing(
    lots: Path, run: Run, kind: str, rows: str, options: list[str], code: int, said: str
) -> None:
    succeed(run("import", lots, "lots", "--primary-key", "id", "--as", kind))
    before = run("log", "--oneline").stdout
    lots.write_text("id,code,size\n" + rows)

    done = run("import", lots, "lots", "--replace", *options)

    assert (done.exit_code, said in done.stderr) == (code, True), done.stderr
    assert run("log", "--oneline").stdout == before
    assert sorted(run("cat", "lots").stdout.splitlines()) == sorted(FIRST.splitlines())


def test_rows_whose_keys_were_made_get_their_own(lots: Path, run: Run) -> None:
    succeed(run("import", lots, "lots", "--no-primary-key", "--as", "kart"))
    succeed(run("import", lots, "lots", "--replace", "--primary-key", "code"))

    assert keys_of(run, "lots") == ["code"]
    assert sorted(run("cat", "lots").stdout.splitlines()) == sorted(FIRST.splitlines())
    succeed(run("import", lots, "lots", "--replace"))
    assert keys_of(run, "lots") == ["code"], "nothing is left of the keys that were made"


def test_one_layer_of_several_by_its_name(lots: Path, tmp_path: Path, run: Run) -> None:
    """A key that only this layer has is no error of the others."""
    path = tmp_path / "two.gpkg"
    (tmp_path / "roads.csv").write_text("name\nx\n")
    for name in ("lots", "roads"):
        succeed(run("import", tmp_path / f"{name}.csv", "--no-primary-key"))
        succeed(run("export", name, path, "--layer", name))
    succeed(run("import", path, "lots", "--replace", "--primary-key", "code"))
    assert keys_of(run, "lots") == ["code"]
