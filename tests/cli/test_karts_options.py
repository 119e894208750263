"""Kart's commands and options are all known here, by the same names."""

import click
import pytest

from havasu_vc.cli.kart import options
from havasu_vc.cli.main import cli

TAKES_ANYTHING = {"helper", "lfs+ fetch", "lfs+ gc", "lfs+ ls-files", "lfs+ pre-push"}
"""Commands that hand their words on, or have nothing to do with them."""


def _command(path: str) -> click.Command:
    found: click.Command = cli
    words = path.removeprefix("table-").split() if path.startswith("table-") else path.split()
    for word in words:
        assert isinstance(found, click.Group), path
        named = found.get_command(click.Context(found), word)
        assert named is not None, path
        found = named
    return found


@pytest.mark.parametrize("path", sorted(options._OPTIONS.keys() - TAKES_ANYTHING))
def test_every_option_of_karts_is_known(path: str) -> None:
    known = {
        name
        for each in _command(path).params
        if isinstance(each, click.Option)
        for name in (*each.opts, *each.secondary_opts)
    }
    assert set(options._OPTIONS[path].split()) <= known


def test_every_command_of_karts_has_its_arguments_here() -> None:
    assert options._OPTIONS.keys() <= options._USAGES.keys()
