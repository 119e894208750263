"""The real git, with nothing of the machine's own configuration.

`isolate_git` gives this process and all that it starts one home folder, whose
`.gitconfig` both git and libgit2 read; `run_git` runs a command in it.
"""

import os
import subprocess
from pathlib import Path

CONFIG = """\
[user]
    name = Test User
    email = test@example.com
[init]
    defaultBranch = main
[gc]
    auto = 0
[maintenance]
    auto = false
"""


def isolate_git(home: Path) -> None:
    """Make `home` the home folder of this process, with a git configuration for tests.

    Must run before pygit2 is imported: libgit2 looks for the home folder once.
    """
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]
    os.environ.pop("XDG_CONFIG_HOME", None)
    (home / ".gitconfig").write_text(CONFIG, encoding="utf-8")
    os.environ |= {
        "HOME": str(home),
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C.UTF-8",
    }


def run_git(*args: str | Path, cwd: Path, stdin: str = "", check: bool = True) -> str:
    """Run git in `cwd` and return what it prints, without the last line end.

    A failure raises CalledProcessError with git's words as a note, unless `check` is false.
    """
    done = subprocess.run(
        ["git", *map(str, args)],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        check=False,
    )
    if check and done.returncode:
        error = subprocess.CalledProcessError(done.returncode, done.args, done.stdout, done.stderr)
        error.add_note(done.stderr)
        raise error
    return done.stdout.removesuffix("\n")


def git_fsck(git_directory: Path, *options: str) -> str:
    """Return all that `git fsck --strict` says of a repository, and fail if it fails.

    It checks a graph of commits and an index of packs in processes of their own, which here
    start only where there are such.
    """
    objects, settings = git_directory / "objects", list[str]()
    if not list(objects.glob("info/commit-graph*")):
        settings += ["-c", "core.commitGraph=false"]
    if not (objects / "pack" / "multi-pack-index").exists():
        settings += ["-c", "core.multiPackIndex=false"]
    done = subprocess.run(
        ["git", *settings, "fsck", "--strict", "--no-progress", *options],
        cwd=git_directory,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        check=False,
    )
    assert not done.returncode, f"git fsck: {done.returncode} {done.stdout}{done.stderr}"
    return done.stdout + done.stderr
