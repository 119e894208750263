"""Every command prints JSON, and what it prints is what its schema says."""

import hashlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from click.testing import Result

from havasu_vc.cli.forms import FORMS, PRINTED
from havasu_vc.cli.main import cli
from havasu_vc.cli.progress import JsonProgress
from havasu_vc.cli.schemas import file_name, format_page, format_schema, schema
from tests.cli.commands.test_workingcopy import editor
from tests.cli.conftest import invoke, succeed
from tests.repo.test_upgrading_format import old_repository
from tests.support.examples import some
from tests.support.git import run_git
from tests.support.golden import Golden

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

WITHOUT = {
    "ci review": "writes review.json, and the host's log is for people",
    "ci update": "the host's log is for people",
    "clean": "prints lines, as git clean",
    "completion": "prints a script",
    "config": "is git's",
    "create-patch": "prints a patch, which is JSON of Kart's",
    "git": "is git's",
    "git-diff": "is run by git, for people",
    "grep": "prints lines of JSON, as -o json-lines",
    "hook pre-receive": "is run by git, for who pushes",
    "open": "serves JSON of its own",
    "reflog": "is git's",
    "serve": "serves JSON of its own",
    "shell": "is for people",
    "spark-conf": "prints settings, as --json",
}
"""Commands that print no JSON by -o, and why."""

SIDE = [
    "switch -c side HEAD^",
    "sql!UPDATE points SET name = 'mine' WHERE id = 2",
    "commit -m Side",
]
EDITED = ["create-workingcopy", "sql!UPDATE points SET name = 'edited' WHERE id = 2"]
NEW_TABLE = [
    "sql!CREATE TABLE other (id INTEGER PRIMARY KEY, a TEXT)",
    "sql!INSERT INTO gpkg_contents (table_name, data_type, identifier)"
    " VALUES ('other', 'attributes', 'other')",
]
FILTER = "EPSG:4326\n\nPOLYGON ((0 0, 1 0, 1 1, 0 0))\n"
FILTER_ID = hashlib.sha1(f"blob {len(FILTER)}\0{FILTER}".encode()).hexdigest()
PUSHED = [
    "git!init -q --bare {tmp}/server",
    "remote add origin {tmp}/server",
    "push -u origin main",
]
CONFLICT = ["create-workingcopy", *SIDE, "merge main"]

SCENES: dict[str, tuple[list[str], ...]] = {
    "apply": (["file!create-patch HEAD", "reset HEAD^", "apply {tmp}/file"],),
    "add-dataset": (["create-workingcopy", *NEW_TABLE, "add-dataset other"],),
    "branch": (["branch"],),
    "checkout": (
        ["checkout"],
        ["checkout -b x HEAD^"],
        ["checkout --as {tmp}/a.gpkg"],
        ["checkout HEAD^ --to {tmp}/there"],
    ),
    "cherry-pick": (
        [
            "create-workingcopy",
            *SIDE,
            "switch main",
            "git!tag x HEAD",
            "cherry-pick -X theirs side",
        ],
        [*CONFLICT[:-1], "cherry-pick main", "cherry-pick --abort"],
    ),
    "clone": (
        [*PUSHED, "clone {tmp}/server {tmp}/clone"],
        [*PUSHED, "clone --bare {tmp}/server {tmp}/clone"],
        [*PUSHED, "clone --workingcopy x.gpkg {tmp}/server {tmp}/clone"],
    ),
    "commit": ([*EDITED, "commit -m Edited"], [*EDITED, "commit -n"]),
    "commit-files": (["init --kart {tmp}/kart", "-C {tmp}/kart commit-files -m x a.txt=b"],),
    "convert": (["convert points --to kart"],),
    "count": (["count"],),
    "create-workingcopy": (["create-workingcopy"],),
    "data drop": ([*PUSHED, "data drop --all"], [*PUSHED, "data drop -n"]),
    "data fetch": ([*PUSHED, "data fetch"],),
    "data place": ([*PUSHED, "data place"], ["data place file://{tmp}/place"]),
    "blame": (["blame points"], ["blame points --columns name"]),
    "cat": (["cat points"],),
    "check": (["check"],),
    "conflicts": ([*CONFLICT, "conflicts"],),
    "data ls": (["data ls"], ["data ls -l"]),
    "data status": (["data status"],),
    "data version": (["data version"],),
    "describe": (["describe points"],),
    "diff": (["diff HEAD^ HEAD"], [*EDITED, "diff"]),
    "head": (["head points"],),
    "log": (["log"], ["log --dataset-changes --with-feature-count exact"]),
    "meta get": (["meta get points"],),
    "review": (["review HEAD^ HEAD"],),
    "show": (["show"],),
    "spatial-filter index": (["convert points --to kart", "spatial-filter index"],),
    "spatial-filter resolve": (
        [f"text!{FILTER}", "git!hash-object -w {tmp}/file", f"spatial-filter resolve {FILTER_ID}"],
    ),
    "sql": (["sql 'SELECT id FROM points'"],),
    "stash show": ([*EDITED, "stash", "stash show"],),
    "tag": (["tag v1", "tag"],),
    "validate": (["validate"],),
    "version": (["version"],),
    "data prune": ([*PUSHED, "data prune"],),
    "data push": ([*PUSHED, "data push"],),
    "data rm": (["data rm points"],),
    "data verify": (["data verify"],),
    "export": (["export points {tmp}/a.csv"],),
    "fsck": (["fsck"],),
    "gc": (["gc"], ["gc -n"]),
    "meta set": (["meta set points title=x"],),
    "remote": ([*PUSHED, "remote"], ["remote add origin {tmp}/server"]),
    "fetch": ([*PUSHED, "fetch"], [*PUSHED, "git!update-ref -d refs/remotes/origin/main", "fetch"]),
    "import": (
        ["import {tmp}/table.csv points --replace --primary-key id"],
        ["import {tmp}/table.csv --list"],
    ),
    "init": (
        ["init {tmp}/new"],
        ["init --bare {tmp}/new"],
        ["init {tmp}/new --import {tmp}/table.csv"],
    ),
    "merge": (
        ["branch old HEAD^", "merge old"],
        ["switch -c side HEAD^", "merge main"],
        CONFLICT,
        [*CONFLICT, "merge --abort"],
        [*CONFLICT, "resolve --all --with=ours", "merge --continue"],
        [*CONFLICT[:-1], "merge -n main"],
    ),
    "mv": (["mv points places"],),
    "optimize": (["optimize"], ["optimize -n"]),
    "pull": (
        [*PUSHED, "pull"],
        [*PUSHED, "reset HEAD^", "pull"],
        [*PUSHED, "reset HEAD^", "pull --rebase"],
    ),
    "push": ([*PUSHED, "push"], [*PUSHED, "git!tag v1", "push -n origin v1 main"]),
    "rebase": (
        ["create-workingcopy", *SIDE, "rebase -X theirs main"],
        [*CONFLICT[:-1], "rebase main", "rebase --abort"],
    ),
    "repair": (["repair"],),
    "reset": (["reset HEAD^"],),
    "resolve": ([*CONFLICT, "resolve --all --with=ours"],),
    "restore": ([*EDITED, "restore"], ["restore -s HEAD^ points"], ["restore -n -s HEAD^"]),
    "revert": (["revert HEAD"], ["revert -n HEAD"]),
    "rm": (["rm points"],),
    "stash apply": ([*EDITED, "stash", "stash apply"],),
    "stash drop": ([*EDITED, "stash", "stash drop"],),
    "stash list": ([*EDITED, "stash", "stash list"], ["stash list"]),
    "stash pop": ([*EDITED, "stash", "stash pop"],),
    "stash push": ([*EDITED, "stash push"],),
    "status": (["status"], [*EDITED, "status"], [*PUSHED, "status"], [*CONFLICT, "status"]),
    "switch": (["switch -c x"], ["switch -d HEAD^"], ["switch -C main HEAD^"]),
}
"""What is run for each command, the last with -o json; `sql!` is an edit, `git!` is git."""


def leaves() -> Iterator[tuple[str, click.Command]]:
    def below(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(command, click.Group):
            yield " ".join(path), command
            return
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from below(child, (*path, name))

    return below(cli, ())


def test_every_command_has_a_form_and_a_scene() -> None:
    with_json = {
        name
        for name, command in leaves()
        if any(
            "--output-format" in each.opts and "json" in getattr(each.type, "choices", ["json"])
            for each in command.params
        )
    }

    assert {name for name, _ in leaves()} - with_json == set(WITHOUT)
    assert with_json == set(PRINTED)
    # The one is below; the page on rasters in JSON tells what the other prints.
    assert with_json == set(SCENES) | {"upgrade", "raster info"}
    assert {form for forms in PRINTED.values() for form in forms} == set(FORMS)


@pytest.fixture
def play(repo: Path, tmp_path: Path, csv_file: Path) -> Any:
    def run_all(steps: list[str]) -> Any:
        *before, last = [step.format(tmp=tmp_path) for step in steps]
        for step in before:
            kind, mark, line = step.partition("!")
            if not mark:
                succeed(invoke(["-C", repo, *shlex.split(step)]))
            elif kind == "git":
                run_git(*shlex.split(line), cwd=repo)
            elif kind == "text":
                (tmp_path / "file").write_text(line)
            elif kind == "file":
                done = succeed(invoke(["-C", repo, *shlex.split(line)]))
                (tmp_path / "file").write_text(done.stdout)
            else:
                with editor(repo / "repo.gpkg") as database:
                    database.execute(line)
        return json.loads(succeed(invoke(["-C", repo, *shlex.split(last), "-o", "json"])).stdout)

    return run_all


SHOWN = [
    f"{command}, {number}" for command, scenes in SCENES.items() for number in range(len(scenes))
]


@pytest.mark.parametrize("scene", some(SHOWN, "merge, 2", "switch, 0"))
def test_what_is_printed_is_what_the_schema_says(scene: str, play: Any) -> None:
    command, _, number = scene.partition(", ")
    document = play(SCENES[command][int(number)])
    forms = PRINTED[command]
    named = [form for form in forms if "/v" in form]
    assert not named or set(document) & set(forms), document
    for form in set(document) if named else forms:
        assert form in forms
        jsonschema.validate(document, schema(form, closed=True))


def test_the_schemas_are_up_to_date(golden: Golden) -> None:
    for form in FORMS:
        jsonschema.Draft202012Validator.check_schema(schema(form))
        golden(format_schema(form), REFERENCE / "json" / file_name(form))
    assert {each.name for each in (REFERENCE / "json").iterdir()} == set(map(file_name, FORMS))


def test_the_page_is_up_to_date(golden: Golden) -> None:
    golden(format_page(), REFERENCE / "json-forms.md")


def test_upgrade(tmp_path: Path) -> None:
    old = old_repository(tmp_path / "repo")
    document = json.loads(succeed(invoke(["-C", old.path, "upgrade", "-o", "json"])).stdout)
    jsonschema.validate(document, schema("havasu.upgrade/v1", closed=True))
    assert document["havasu.upgrade/v1"]["datasets"]


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stderr.splitlines()]


def test_errors_and_notes_are_lines_of_json(repo: Path) -> None:
    for given in (
        ["--json-errors", "switch", "no\nwhere"],
        ["switch", "no\nwhere", "--json-errors"],
    ):
        result = invoke(["-C", repo, *given])
        (line,) = lines(result)
        assert (result.exit_code, line["exitCode"], result.stdout) == (43, 43, "")
        assert (line["type"], line["code"]) == ("error", "no-branch")
        assert line["message"] == "there is no branch 'no\\nwhere'" and len(line["hints"]) == 2

    (usage,) = lines(invoke(["--json-errors", "switch"]))
    assert (usage["code"], usage["exitCode"]) == ("usage", 2)
    (unknown,) = lines(invoke(["--json-errors", "swich"]))
    assert "did you mean switch" in unknown["message"]
    said = lines(succeed(invoke(["-C", repo, "--json-errors", "switch", "-c", "x", "-o", "json"])))
    assert said == [{"type": "text", "message": "Switched to a new branch 'x'"}]
    quiet = succeed(invoke(["-C", repo, "--json-errors", "-q", "switch", "main"]))
    assert quiet.stderr == ""


def test_a_message_that_looks_like_the_option_is_none(repo: Path) -> None:
    assert not invoke(["-C", repo, "switch", "--", "--json-errors"]).stderr.startswith("{")


def test_progress_is_lines_of_json(repo: Path, tmp_path: Path) -> None:
    steps = ["--progress=json", "--json-errors", "export", "points", str(tmp_path / "a.csv")]
    told = lines(succeed(invoke(["-C", repo, *steps])))
    progress = [each for each in told if each["type"] == "progress"]
    assert progress and {each["type"] for each in told} <= {"progress", "text", "note"}
    for each in progress:
        assert set(each) == {"type", "step", "done", "total", "unit"}
    assert progress[0]["done"] == 0 and progress[-1]["done"] == progress[-1]["total"]

    assert "progress" not in succeed(invoke(["-C", repo, "-q", *steps, "--overwrite"])).stderr


@pytest.mark.parametrize("rest", [["--progress"], ["--progress", "main"], ["main", "--progress"]])
def test_bare_progress_is_taken_as_git_has_it(repo: Path, rest: list[str]) -> None:
    plain = succeed(invoke(["-C", repo, "log", "--oneline", "main"])).stdout
    assert plain
    assert succeed(invoke(["-C", repo, "log", "--oneline", *rest])).stdout == plain


def test_lines_of_progress_are_few(capsys: pytest.CaptureFixture[str]) -> None:
    progress = JsonProgress(pace=3600)
    progress.start(1000, "Moving", in_bytes=True)
    for _ in range(999):
        progress.advance(1)
    progress.finish()
    progress.finish()

    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(each["done"], each["unit"]) for each in told] == [(0, "bytes"), (999, "bytes")]


def test_style_of_the_json(repo: Path) -> None:
    told = succeed(invoke(["-C", repo, "reset", "-o", "json:extracompact"])).stdout
    assert told.startswith('{"havasu.reset/v1":{"branch":"main","commit":"') and told.endswith("\n")
    assert invoke(["-C", repo, "reset", "-o", "json:loose"]).exit_code == 2
