"""Making a repository that Kart takes for one of its own, and seeing what Kart left half done.

    .kart/            the git directory
    .git              a file that names it, so that tools which look for git find it
    KART_README.txt   says what the folder is

Its index is one that plain git refuses, as Kart writes it: the work tree holds no files
of git's, and a stray `git commit -a` would remove everything.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from havasu_vc.store.command import run_git
from havasu_vc.store.durability import replace_file, reporting_storage_errors

__all__ = ["LOCKED_INDEX", "init_kart", "kart_merge"]

_INDEX = b"DIRC\0\0\0\x02\0\0\0\0kart\0\0\0\0"
LOCKED_INDEX = _INDEX + hashlib.sha1(b"blob %d\0" % len(_INDEX) + _INDEX).digest()
"""An index with an extension that git does not know and must not ignore."""

_README = b"""This directory is a Kart repository, made by havasu-vc.

Every version of every dataset is in the hidden directory ".kart".
`havasu-vc log` and `kart log` show what was committed, `havasu-vc data ls`
and `kart data ls` the datasets.
"""
_EXCLUDE = b".git\n.kart\nKART_README.*\n/tables/\n"
_ATTRIBUTES = b"**/.*-dataset*/feature/** diff=binary merge=binary -text\n"


def init_kart(place: Path, *, bare: bool, branch: str) -> None:
    """Make an empty repository that Kart opens."""
    folder = place if bare else place / ".kart"
    options = ["--quiet", "--bare", "--object-format=sha1", f"--initial-branch={branch}"]
    run_git(["init", *options, "--", str(folder)])
    settings = {"kart.repostructure.version": "3"}
    if not bare:
        settings |= {
            "core.bare": "false",
            "core.logAllRefUpdates": "always",
            "kart.workingcopy.location": f"{place.resolve().name}.gpkg",
        }
    for key, value in settings.items():
        run_git(["config", "--local", key, value], git_directory=folder)
    if bare:
        return
    with reporting_storage_errors(place):
        (folder / "info").mkdir(exist_ok=True)
        replace_file(folder / "info" / "exclude", _EXCLUDE)
        replace_file(folder / "info" / "attributes", _ATTRIBUTES)
        replace_file(folder / "index", LOCKED_INDEX)
        if not (place / "KART_README.txt").exists():
            replace_file(place / "KART_README.txt", _README)
        replace_file(place / ".git", b"gitdir: .kart\n")


def kart_merge(git_directory: Path) -> str | None:
    """Return the branch or commit that Kart stopped in the middle of merging, if it did."""
    if not (git_directory / "MERGED_INDEX").exists():
        return None
    for name in ("MERGE_BRANCH", "MERGE_HEAD"):
        try:
            return (git_directory / name).read_text("utf-8", "replace").strip() or "a commit"
        except FileNotFoundError:
            continue
    return "a commit"
