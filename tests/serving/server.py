"""A catalog that the command serves in a process of its own, as users start it."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

__all__ = ["Reply", "ask", "catalog", "prefix", "send", "serving"]


@contextmanager
def serving(repo: Path, *options: str, first: str = "") -> Iterator[str]:
    """Yield the URL of a server of a repository, in which Python did something first."""
    program = f"{first}\nfrom havasu_vc.cli.main import main; main()"
    command = [sys.executable, "-c", program, "-C", str(repo), "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait(20)


def catalog(url: str, warehouse: str = "", **settings: str) -> Any:
    """Return PyIceberg's catalog of a server."""
    from pyiceberg.catalog import load_catalog

    return load_catalog("havasu", type="rest", uri=url, warehouse=warehouse, **settings)


def ask(
    url: str,
    warehouse: str,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Any]:
    """Return the status and the JSON that a server answers, for a path below a warehouse's."""
    with urlopen(f"{url}/v1/config?warehouse={quote(warehouse, safe='')}") as answer:
        prefix = json.load(answer)["overrides"]["prefix"]
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    request = Request(f"{url}/v1/{prefix}/{path}", data, dict(headers or {}), method=method)
    try:
        with urlopen(request) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text else None


@dataclass(frozen=True)
class Reply:
    """What a server answered."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def error(self) -> tuple[int, str]:
        """The number and the type of an error, which are said twice."""
        found = self.body["error"]
        assert found["code"] == self.status
        return self.status, found["type"]


def send(
    url: str, path: str, *, method: str = "GET", body: Any = None, context: Any = None,
    **headers: str,
) -> Reply:  # fmt: skip
    """Send one request; names of headers have `_` for `-`."""
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request(url + path, data, named, method=method)
    try:
        with urlopen(request, timeout=60, context=context) as reply:
            status, found, text = reply.status, reply.headers, reply.read()
    except HTTPError as error:
        with error:
            status, found, text = error.code, error.headers, error.read()
    lower = {name.lower(): value for name, value in found.items()}
    return Reply(status, lower, json.loads(text) if text else None)


def prefix(url: str, warehouse: str = "", **headers: str) -> str:
    """Return the beginning of the paths of a warehouse."""
    reply = send(url, f"/v1/config?warehouse={quote(warehouse)}", **headers)
    return f"/v1/{reply.body['overrides']['prefix']}"
