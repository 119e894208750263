"""A catalog that the command serves in a process of its own, as users start it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["catalog", "serving"]


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
