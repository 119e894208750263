"""The code of this package, sent to executors that do not find it where they run."""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import io
import os
import shutil
import site
import struct
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from havasu_vc.engine.session import (
    PACKAGE,
    WORKER_PATH,
    AnySession,
    application_of,
    is_connect,
    is_local_master,
)

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["ensure_package", "ship_package", "shipped_name", "zipped_package"]

_shipped: dict[str, Path] = {}


def ensure_package(session: AnySession) -> None:
    """Let the session's workers find this package: send it, unless they run where it is.

    What is sent is a zip file, which costs each task some tens of milliseconds.
    """
    if is_connect(session):
        ship_package(session)
        return
    context = session.sparkContext
    here = [*site.getsitepackages(), *_worker_path(context)]
    if not (is_local_master(str(context.master)) and str(PACKAGE.parent) in here):
        ship_package(session)


def _worker_path(context: SparkContext) -> list[str]:
    """Return where workers are told to look, as sessions that are started here tell them."""
    return (context.getConf().get(WORKER_PATH) or "").split(os.pathsep)


def shipped_name(session: AnySession) -> str | None:
    """Return what the file is called in which executors were sent this package, if they were."""
    found = _shipped.get(application_of(session))
    return None if found is None else found.name


def ship_package(session: AnySession) -> None:
    """Send this package to the session's executors, once."""
    application = application_of(session)
    if application in _shipped:
        return
    content = zipped_package()
    folder = Path(tempfile.mkdtemp(prefix="havasu-vc-code-"))
    # The driver serves the file for as long as the session lives: it stays to the end.
    atexit.register(shutil.rmtree, folder, True)
    archive = folder / f"havasu_vc-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    archive.write_bytes(content)
    if is_connect(session):
        session.addArtifacts(str(archive), pyfile=True)
    else:
        path = list(sys.path)
        session.sparkContext.addPyFile(str(archive))
        sys.path[:] = path  # the driver has the package already
    _shipped[application] = archive


def zipped_package() -> bytes:
    """Return this package as a zip file; the same bytes for the same files.

    Modules whose byte code is kept here are sent with it: no worker's process compiles them.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for file in sorted(PACKAGE.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                name = file.relative_to(PACKAGE.parent).as_posix()
                source = file.read_bytes()
                archive.writestr(zipfile.ZipInfo(name), source)
                if file.suffix == ".py" and (code := _byte_code(file, source)) is not None:
                    archive.writestr(zipfile.ZipInfo(f"{name}c"), code)
    return content.getvalue()


def _byte_code(file: Path, source: bytes) -> bytes | None:
    """Return the byte code that Python kept of a module, to hold whatever a file's time is."""
    try:
        kept = Path(importlib.util.cache_from_source(str(file))).read_bytes()
    except (OSError, NotImplementedError):
        return None
    magic, code = importlib.util.MAGIC_NUMBER, kept[16:]
    head = struct.pack("<4sIII", magic, 0, int(file.stat().st_mtime), len(source) & 0xFFFFFFFF)
    if kept[:16] != head:
        return None
    unchecked = 1
    return struct.pack("<4sI", magic, unchecked) + importlib.util.source_hash(source) + code
