"""The actions and the workflows that the docs tell to copy: well formed, and safe to run.

No input or event is pasted into a script, where it would be code; permissions are named;
what a pull request holds is never checked out by a job that has secrets.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from havasu_vc.cli.main import cli

ROOT = Path(__file__).parents[1]
ACTIONS = sorted((ROOT / ".github" / "actions").glob("*/action.yml"))
GUIDE = ROOT / "docs" / "guides" / "pull-requests.md"
TEMPLATES = re.findall(r"^```yaml\n(.*?)^```$", GUIDE.read_text("utf-8"), re.M | re.S)


def steps(document: Any) -> list[dict[str, Any]]:
    if "runs" in document:
        return list(document["runs"]["steps"])
    return [step for job in document.get("jobs", {}).values() for step in job["steps"]]


def test_there_are_some() -> None:
    assert [path.parent.name for path in ACTIONS] == ["review", "update"]
    assert len(TEMPLATES) >= 3


@pytest.mark.parametrize("path", ACTIONS, ids=lambda path: path.parent.name)
def test_scripts_hold_no_expression(path: Path) -> None:
    document = yaml.safe_load(path.read_text("utf-8"))

    assert document["runs"]["using"] == "composite"
    scripts = [step for step in steps(document) if "run" in step]
    assert scripts
    for step in scripts:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
        assert step["working-directory"] == "${{ runner.temp }}"
    for step in steps(document):
        ref = str(step.get("with", {}).get("ref", ""))
        assert "head" not in ref
    used = set(re.findall(r"inputs\.([\w-]+)", path.read_text("utf-8")))
    assert used == set(document["inputs"])


@pytest.mark.parametrize("path", ACTIONS, ids=lambda path: path.parent.name)
def test_commands_and_options_are_there(path: Path) -> None:
    text = path.read_text("utf-8")
    (name,) = re.findall(r"havasu-vc -C \S+ ci (\w+)", text)
    import click

    group = cli.get_command(click.Context(cli), "ci")
    assert isinstance(group, click.Group)
    known = {option for each in group.commands[name].params for option in each.opts}
    script = next(
        step["run"] for step in steps(yaml.safe_load(text)) if " ci " in step.get("run", "")
    )

    assert set(re.findall(r"(?<=[ (])--[a-z-]+", script)) <= known


@pytest.mark.parametrize("text", TEMPLATES, ids=lambda text: text.split("\n", 1)[0][:30])
def test_templates(text: str) -> None:
    document = yaml.safe_load(text)

    assert isinstance(document, dict)
    if "jobs" not in document:
        return
    assert document["permissions"]
    assert "${{ github.event.comment.body }}" not in text
    assert "head.sha" not in text
    for step in steps(document):
        assert "run" not in step
