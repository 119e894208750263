"""A repository, and `havasu-vc open` on it as a process of its own."""

import http.client
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import invoke, succeed
from tests.support.browser import Browser, Tab
from tests.support.git import run_git

PROGRAM = "from havasu_vc.cli.main import main; main()"
ROWS = 250


def points(path: Path, *, rows: int = ROWS, **changed: str) -> Path:
    lines = ["id,name,lon,lat"]
    for i in range(1, rows + 1):
        name = changed.get(f"n{i}", f"name {i}")
        lines.append(f"{i},{name},{174.5 + i / 1000},{-41 - i / 2000}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Points that two commits changed, a table without places, a branch that is ahead."""
    folder = tmp_path_factory.mktemp("face")
    repo, file = folder / "survey", folder / "points.csv"
    succeed(invoke(["init", repo]))
    take: list[str | Path] = ["-C", repo, "import", file, "--primary-key", "id"]
    place = ["--crs", "EPSG:4326"]
    points(file)
    succeed(invoke([*take, *place, "-m", "First points"]))
    points(file, n3="THREE", n200="two hundred")
    succeed(invoke([*take, *place, "--replace", "-m", "Names of two"]))
    table = folder / "lamps.parquet"
    pq.write_table(pa.table({"id": [3, 1, 2], "watts": [60, None, 40]}), table)
    succeed(invoke(["-C", repo, "import", table, "--primary-key", "id", "-m", "Lamps"]))
    run_git("branch", "side", cwd=repo)
    succeed(invoke(["-C", repo, "switch", "side"]))
    points(file, n3="THREE", n200="two hundred", n7="seven")
    succeed(invoke([*take, *place, "--replace", "-m", "Seven"]))
    succeed(invoke(["-C", repo, "switch", "main"]))
    return repo


@dataclass
class Served:
    """A server, and a client that it let in."""

    address: str
    cookie: str = ""
    _place: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._place = urlsplit(self.address).netloc

    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        host: str | None = None,
        body: str | None = None,
        **headers: str,
    ) -> tuple[int, dict[str, str], bytes]:
        """Return the status, the headers and the body."""
        connection = http.client.HTTPConnection(self._place, timeout=60)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent["host"] = host or self._place
        if self.cookie and "cookie" not in sent:
            sent["cookie"] = self.cookie
        connection.request(method, path, body, headers=sent)
        answer = connection.getresponse()
        found = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, found

    def enter(self) -> None:
        """Come in by the address."""
        path = self.address.removeprefix(f"http://{self._place}")
        status, headers, _ = self.ask(path)
        assert status == 303
        self.cookie = headers["set-cookie"].partition(";")[0]

    def get(self, what: str, **query: Any) -> Any:
        """Return JSON that must come."""
        status, _, body = self.ask(f"/api/v1/{what}?{urlencode(query)}")
        assert status == 200, body
        return json.loads(body)


@pytest.fixture(scope="session")
def serving() -> Iterator[Callable[[Path], Served]]:
    """Start `havasu-vc open` on a repository."""
    started: list[subprocess.Popen[str]] = []

    def start(path: Path) -> Served:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "-C", str(path), "open", "--no-browser"],
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        return Served(process.stdout.readline().strip())

    yield start
    for process in started:
        process.terminate()
        assert process.stdout is not None
        process.stdout.close()
        process.wait(20)


@pytest.fixture(scope="module")
def served(serving: Callable[[Path], Served], repo: Path) -> Served:
    found = serving(repo)
    found.enter()
    return found


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Tab]:
    """A tab; whatever was done in it, nothing went wrong and nothing left this machine.

    It is looked at before the test's own folder goes, of which a page may still ask.
    """
    assert tmp_path.is_dir()
    tab = browser.open()
    tab.forget()
    yield tab
    tab.run("void 0")
    assert tab.problems == []
    away = [each for each in tab.requests if not each.startswith(("http://127.0.0.1:", "data:"))]
    assert [each for each in away if each != "about:blank"] == []
