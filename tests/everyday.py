"""A repository worked in by commands alone, on any system: `python -m tests.everyday FOLDER`.

CI runs it on Windows and macOS, `test_portability` in a process without what POSIX alone has.
"""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from havasu_vc import Repo
from havasu_vc.cli.main import cli

__all__ = ["work"]


def run(*words: str) -> None:
    """Run a command in this process."""
    try:
        cli.main(list(words))
    except SystemExit as left:
        assert not left.code, (words, left.code)


def edit(path: str) -> None:
    """Change a row as an editor does."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE lots SET name = 'due' WHERE id = 2")


def rows(place: str) -> dict[int, str]:
    """Return what a repository holds."""
    found = Repo.open(place).table("lots").to_arrow().to_pylist()
    return {row["id"]: row["name"] for row in found}


def work() -> None:
    """Work for a day in the folder where this process is."""
    Path("a.csv").write_text("id,name\n1,one\n2,two\n", "utf-8")
    Path("b.csv").write_text("id,name\n1,uno\n2,two\n3,three\n", "utf-8")
    run("init", "repo")
    os.chdir("repo")
    run("import", "../a.csv", "lots", "--primary-key", "id")
    run("checkout")
    run("switch", "-c", "side")
    run("import", "../b.csv", "lots", "--replace", "-m", "Second")
    run("create-workingcopy", "../wc.gpkg")
    edit("../wc.gpkg")
    run("status")
    run("diff")
    run("commit", "-m", "By hand")
    run("diff", "main...side")
    run("switch", "main")
    run("merge", "side")
    run("log", "--oneline")
    run("gc")
    run("fsck", "--full")
    run("optimize")
    run("-C", "..", "clone", "repo", "copy")
    run("-C", "../copy", "log", "--oneline")
    assert rows("../copy") == {1: "uno", 2: "due", 3: "three"}
    run("export", "lots", "../out.parquet")
    run("export", "lots", "../out.gpkg")
    run("export", "lots", "../lake", "--to", "delta", "--plain")
    run("export", "lots", "../berg", "--to", "iceberg")
    run("review", "HEAD^...HEAD", "-o", "html", "--output", "../review.html")
    run("sql", "SELECT count(*) FROM lots")
    run("rm", "lots")
    run("reset", "--hard", "HEAD^")
    run("mv", "lots", "plots")
    run("branch", "-d", "side")
    run("push", "../copy", "main:elsewhere")
    run("init", "--kart", "../kart")
    run("-C", "../kart", "import", "../b.csv", "lots", "--primary-key", "id")
    run("-C", "../kart", "log", "-p")
    run("--version")


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    work()
