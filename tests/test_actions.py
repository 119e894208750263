"""The actions and the workflows that the docs tell to copy: well formed, and safe to run.

No input or event is pasted into a script, where it would be code; permissions are named;
what a pull request holds is never checked out by a job that has secrets.
"""

import re
import subprocess
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


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = {
    "actions/checkout": ("3d3c42e5aac5ba805825da76410c181273ba90b1", "v7.0.1"),
    "actions/download-artifact": ("3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c", "v8.0.1"),
    "actions/setup-java": ("b6effb05e454b25005698d916606bdc6ffcbf961", "v5.7.0"),
    "actions/setup-python": ("5fda3b95a4ea91299a34e894583c3862153e4b97", "v7.0.0"),
    "actions/upload-artifact": ("bbbca2ddaa5d8feaa63e36b76fdaad77386f024f", "v7.0.0"),
}
"""Actions of others, the commits they are pinned to, and the releases that these are: looked up
in the tags of their repositories. What is pinned anew is looked up and changed here."""


@pytest.mark.parametrize("path", [*ACTIONS, *WORKFLOWS], ids=lambda path: path.parent.name)
def test_actions_of_others_are_pinned_to_releases(path: Path) -> None:
    used = re.findall(r"uses: (\S+)@(\S+)(?: # (\S+))?$", path.read_text("utf-8"), re.M)

    assert len(used) == path.read_text("utf-8").count("uses:")
    for name, commit, release in used:
        assert PINNED[name] == (commit, release)


@pytest.mark.parametrize("path", ACTIONS, ids=lambda path: path.parent.name)
@pytest.mark.parametrize(
    ("package", "version", "expected"),
    [
        ("", "", f"{ROOT}{{extra}}"),
        ("", "==1.2.0", "havasu-vc{extra}==1.2.0"),
        ("./my.whl", "==1.2.0", "./my.whl"),
    ],
)
def test_what_is_installed(
    path: Path, tmp_path: Path, package: str, version: str, expected: str
) -> None:
    """Without a wish it is the action's own repository, never what was checked out."""
    (script,) = (
        step["run"]
        for step in steps(yaml.safe_load(path.read_text("utf-8")))
        if "pip install" in step.get("run", "")
    )
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nfor each; do last=$each; done; printf %s "$last"\n')
    python.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "PACKAGE": package,
        "VERSION": version,
        "ACTION": str(path.parent),
        "GITHUB_WORKSPACE": str(tmp_path / "workspace"),
    }
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    extra = "[duckdb]" if path.parent.name == "review" else ""

    assert done.stdout == expected.format(extra=extra)


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
    assert "${{ github.event.comment.body }}" not in text
    assert "head.sha" not in text
    if "jobs" not in document:
        commands = [line for job in document.values() for line in job["script"]]
    elif "actions/" in text:
        assert document["permissions"]
        assert all("run" not in step for step in steps(document))
        return
    else:
        # No secret may be read by what a pull request holds: nothing of it is put anywhere.
        assert "checkout" not in text
        assert all("${{" not in step["run"] for step in steps(document))
        commands = [line for step in steps(document) for line in step["run"].splitlines()]
    used = [found for line in commands if (found := re.search(r"havasu-vc.* ci (\w+)", line))]
    assert [found[1] for found in used] == ["review", "update"]


def test_a_release_is_published_by_a_job_that_runs_nothing_of_the_repository() -> None:
    path = ROOT / ".github" / "workflows" / "release.yml"
    document = yaml.safe_load(path.read_text("utf-8"))
    jobs = document["jobs"]

    # YAML takes `on` for true.
    assert document[True] == {"push": {"tags": ["v[0-9]*"]}}
    assert document["permissions"] == {"contents": "read"}
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == [
        "publish"
    ]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["environment"] == "pypi"
    used = [step.get("uses", "").partition("@")[0] for step in steps({"jobs": jobs})]
    assert used.count("actions/upload-artifact") == used.count("actions/download-artifact") == 1
    assert all("checkout" not in step.get("uses", "") for step in jobs["publish"]["steps"])
    assert any(step.get("run") == "make installed" for step in jobs["build"]["steps"])
    for step in steps(document):
        assert "${{" not in step.get("run", "")
