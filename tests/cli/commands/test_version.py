"""`havasu-vc version`."""

import json

from havasu_vc import __version__
from tests.cli.conftest import invoke


def test_it_tells_the_version() -> None:
    assert invoke(["version"]).stdout == f"havasu-vc {__version__}\n"


def test_all_tells_the_libraries() -> None:
    versions = json.loads(invoke(["version", "--all", "-o", "json"]).stdout)

    assert versions["havasu-vc"] == __version__
    assert versions["pyarrow"][0].isdigit()
