"""python -m tests.faults.seam FOLDER: what every library writes in FOLDER, as the seam sees it.

Prints the calls as JSON. With --plain nothing watches, for another program to count the calls.
"""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pygit2


def work(folder: Path) -> int:
    """Change files in the folder by each library, and by git and a shell."""
    (folder / "python").write_bytes(b"python")
    pq.write_table(pa.table({"a": [1]}), folder / "arrow")
    database = sqlite3.connect(folder / "sqlite")
    with database:
        database.execute("CREATE TABLE a (b)")
    database.close()
    repository = pygit2.init_repository(str(folder / "libgit2"), bare=True)
    repository.create_blob(b"blob")
    git = ["git", "-C", str(folder / "libgit2")]
    blob = subprocess.run([*git, "hash-object", "-w", "--stdin"], input=b"git", check=True)
    subprocess.run(["sh", "-c", f"echo {blob.returncode} > '{folder}/shell'"], check=True)
    os.rename(folder / "python", folder / "renamed")
    return 0


def main() -> None:
    folder = Path(sys.argv[1])
    if "--plain" in sys.argv:
        work(folder)
        return
    from tests.faults.running import run

    outcome = run(lambda: work(folder), folder)
    assert outcome.code == 0, outcome.text
    print(json.dumps([[call.name, call.path] for call in outcome.calls]))


if __name__ == "__main__":
    main()
