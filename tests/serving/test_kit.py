"""Iceberg's own compatibility kit for REST catalogs, and how each of its tests ends here.

The kit takes data files for granted that no disk has, and partitions, orders and properties that
a dataset does not take, so not all of it can pass. The golden file says what does, and why the
rest does not: what passed once passes for good.
"""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from havasu_vc import Settings
from tests.serving.server import serving
from tests.support.templates import empty_repo

ROOT = Path(__file__).parents[2]
JARS = ROOT / ".engines" / "kit"
GOLDEN = ROOT / "fixtures" / "golden" / "catalog-kit.txt"
SUITE = "org.apache.iceberg.rest.RESTCompatibilityKitCatalogTests"
RUNNER = "org.junit.platform.console.ConsoleLauncher"
SAID = {
    "rck.local": "false",
    "rck.requires-namespace-create": "false",
    "rck.supports-serverside-retry": "true",
    "rck.overrides-requested-location": "true",
    "rck.supports-names-with-dot": "false",
    "rck.supports-names-with-slashes": "false",
}
"""What a catalog tells the kit of itself."""
REASONS = {
    "partitions are not changed|with partitions": "partitions are the repository's",
    "order is not changed|order of its key": "the order is the repository's",
    "outside of the folder|has 0 bytes": "the kit's data files are on no disk",
    "has a default value": "default values are of Iceberg 3",
    "property '.*' would not be kept": "properties are of the day that a table is made",
    "location is the catalog's": "locations are the catalog's",
}
TESTS = {
    "createTableTransaction|replaceTableTransaction": "tables are of Iceberg's format 2",
    "renameTableNamespaceMissing": "namespaces are folders",
    "testRegister": "tables are imported, not registered",
    "MetadataFile": "documents of metadata are made anew where they are missing",
}
"""Why tests do not pass whose messages do not tell."""
LINE = re.compile(r"[├└]─ (?P<test>\S+\(.*?\)|\[\d+\] \w+) (?P<mark>[✔✘■↷])(?: (?P<message>.*))?")


def reason(test: str, message: str | None) -> str:
    """Return why a test does not pass, in the words of the golden file."""
    for reasons, text in ((REASONS, message or ""), (TESTS, test)):
        for pattern, words in reasons.items():
            if re.search(pattern, text):
                return words
    return f"fails: {message}"


def results(output: str) -> list[str]:
    """Return a line for each test of a run's report, in order of name."""
    found, test = [], ""
    for line in output.split("\n"):
        match = LINE.search(line)
        if match is None:
            continue
        name = match["test"]
        test, name = (test, f"{test} {name}") if name.startswith("[") else (name, name)
        if match["mark"] in "✔✘":
            passed = match["mark"] == "✔"
            ended = "passes" if passed else reason(name, match["message"])
            found.append(f"{name}: {ended}\n")
    several = {line.partition(" [")[0] for line in found if " [" in line}
    return sorted(line for line in found if line.partition(": ")[0] not in several)


@pytest.mark.thorough
def test_the_kit_ends_as_it_did(tmp_path: Path, golden: Callable[[str, Path], None]) -> None:
    if not (JARS / ".ready").exists():
        pytest.skip("there is no compatibility kit: scripts/catalog-kit.sh .engines/kit")
    repo = empty_repo(tmp_path / "repo", settings=Settings(engine="local"))
    said = [f"-D{name}={value}" for name, value in SAID.items()]
    shown = ["--disable-banner", "--disable-ansi-colors", "--details=tree"]
    with serving(repo.path, "--write", "*") as url:
        run = subprocess.run(
            ["java", *said, "-cp", f"{JARS}/*", RUNNER, "execute", *shown, "-c", SUITE],
            env=os.environ | {"CATALOG_URI": url, "CATALOG_WAREHOUSE": "main"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    ended = results(run.stdout)
    assert len(ended) > 80, run.stdout[-2000:] + run.stderr[-2000:]
    count = sum(line.endswith(": passes\n") for line in ended)
    assert not [line for line in ended if ": fails: " in line]
    golden(f"{count} of {len(ended)} pass\n\n" + "".join(ended), GOLDEN)
