"""A server of PostgreSQL with PostGIS, of its own, in a folder that goes: no port, one socket.

with postgres() as server:          `server.address("maps")` is the schema `maps` of its database
    server.run("CREATE TABLE ...")
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["PostgresServer", "has_postgis", "postgres"]

DATABASE = "gis"


def _programs() -> Path | None:
    """Return the folder of the newest server's programs that has PostGIS."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        extension = Path(f"/usr/share/postgresql/{folder.parent.name}/extension/postgis.control")
        if extension.exists() and (folder / "initdb").exists():
            return folder
    return None


def has_postgis() -> bool:
    """Whether there is a server to start, and a driver."""
    return _programs() is not None and find_spec("psycopg") is not None


@dataclass(frozen=True)
class PostgresServer:
    """A server that runs."""

    folder: Path
    """Where its socket is."""

    def address(self, schema: str, user: str = "maps") -> str:
        """Return the address of a schema, as working copies have it."""
        return f"postgresql://{user}@/{DATABASE}/{schema}?host={self.folder}"

    def connect(self, user: str = "maps") -> Any:
        """Connect as a program of others does; each statement is a transaction."""
        import psycopg

        return psycopg.connect(host=str(self.folder), user=user, dbname=DATABASE, autocommit=True)

    def run(self, *statements: str, user: str = "maps") -> None:
        """Run statements."""
        with self.connect(user) as connection:
            for each in statements:
                connection.execute(each)

    def rows(self, query: str, values: Sequence[object] = (), user: str = "maps") -> Any:
        """Return what a query finds."""
        with self.connect(user) as connection:
            return connection.execute(query, values or None).fetchall()


@contextmanager
def postgres() -> Iterator[PostgresServer]:
    """Start a server with a database `gis`, in which the user `maps` may do everything."""
    programs = _programs()
    assert programs is not None
    room = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="havasu-pg-", dir=room))
    who: dict[str, Any] = {"cwd": "/"}
    if os.geteuid() == 0:  # which PostgreSQL refuses to be
        names = {each.pw_name for each in pwd.getpwall()}
        owner = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        who |= {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    folder.chmod(0o755)
    data = folder / "data"
    make: list[str | Path] = [
        programs / "initdb",
        "-D",
        data,
        "-A",
        "trust",
        "-U",
        "postgres",
        "-E",
        "UTF8",
    ]
    try:
        subprocess.run(
            [*make, "--locale=C.UTF-8", "--no-sync"], check=True, capture_output=True, **who
        )
        settings = {
            "listen_addresses": "", "unix_socket_directories": str(folder), "fsync": "off",
            "full_page_writes": "off", "synchronous_commit": "off", "max_connections": "40",
            "shared_buffers": "16MB",
        }  # fmt: skip
        command: list[str | Path] = [programs / "postgres", "-D", data]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (
            (folder / "log").open("w") as log,
            subprocess.Popen(command, stdout=log, stderr=log, **who) as process,
        ):
            try:
                _wait(programs, folder, process)
                server = PostgresServer(folder)
                _begin(server)
                yield server
            finally:
                process.terminate()
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.send_signal(2)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(programs: Path, folder: Path, process: subprocess.Popen[bytes]) -> None:
    ready: list[str | Path] = [programs / "pg_isready", "-h", folder, "-q", "-t", "60"]
    for _ in range(600):
        if subprocess.run(ready, check=False).returncode == 0:
            return
        assert process.poll() is None, (folder / "log").read_text()
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError((folder / "log").read_text())


def _begin(server: PostgresServer) -> None:
    import psycopg

    with psycopg.connect(
        host=str(server.folder), user="postgres", dbname="postgres", autocommit=True
    ) as connection:
        connection.execute("CREATE ROLE maps LOGIN")
        connection.execute("CREATE ROLE guest LOGIN")
        connection.execute(f"CREATE DATABASE {DATABASE} OWNER maps")
        connection.execute("CREATE DATABASE plain OWNER maps")
    server.run("CREATE EXTENSION postgis", "GRANT ALL ON spatial_ref_sys TO maps", user="postgres")
