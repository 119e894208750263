"""A catalog that the command serves in a process of its own, as users start it."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

__all__ = ["ask", "catalog", "serving"]


@contextmanager
def serving(repo: Path, *options: str) -> Iterator[str]:
    """Yield the URL of a server of a repository."""
    program = "from havasu_vc.cli.main import main; main()"
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
