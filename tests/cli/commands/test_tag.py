"""`havasu-vc tag`."""

import json

import pytest

from tests.cli.conftest import Run, succeed


def test_making_listing_and_deleting(run: Run) -> None:
    succeed(run("tag", "v1", "HEAD^"))
    succeed(run("tag", "v2", "-m", "Release two"))
    assert succeed(run("tag")).stdout == "v1\nv2\n"

    tags = json.loads(succeed(run("tag", "-o", "json")).stdout)["havasu.tag/v1"]
    assert tags["v1"]["message"] is None
    assert tags["v2"]["message"].strip() == "Release two"
    assert tags["v1"]["commit"] != tags["v2"]["commit"]

    succeed(run("tag", "-d", "v1", "v2"))
    assert succeed(run("tag")).stdout == ""


def test_other_options_are_gits(run: Run) -> None:
    succeed(run("tag", "v1"))

    assert succeed(run("tag", "--list", "v*")).stdout == "v1\n"


@pytest.mark.parametrize(
    ("arguments", "code"), [(("v1", "nope"), 47), (("a", "b", "c"), 2), (("-d",), 2)]
)
def test_bad_input(run: Run, arguments: tuple[str, ...], code: int) -> None:
    assert run("tag", *arguments).exit_code == code
