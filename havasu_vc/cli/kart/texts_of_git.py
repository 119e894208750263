"""Errors of branches, tags and remotes as Kart, which hands them to git, says them.

As in `kart.texts`, which has all others.
"""

from __future__ import annotations

import subprocess

__all__ = ["GIT_TEXTS", "usage_of_git"]

GIT_TEXTS: tuple[tuple[str, str, str], ...] = (
    (
        "fetch",
        "--all is for each remote; name none",
        "fatal: fetch --all does not take a repository argument",
    ),
    (
        "branch",
        "-o json is of the list of branches alone",
        "Illegal usage: 'kart branch --output-format=json' only supports listing branches.",
    ),
    (
        "fetch push pull remote",
        r"git says: ('.+' does not appear to be a git repository)",
        r"fatal: \1\nfatal: Could not read from remote repository.\n\n"
        r"Please make sure you have the correct access rights\nand the repository exists.",
    ),
    (
        "push",
        "an empty text is no remote",
        "fatal: no path specified; see 'git help pull' for valid url syntax",
    ),
    (
        "push",
        "there is no remote",
        "fatal: No configured push destination.\nEither specify the URL from the command-line or "
        "configure a remote repository using\n\n    git remote add <name> <url>\n\nand then push "
        "using the remote name\n\n    git push <name>",
    ),
    (
        "push",
        r"git says: (The current branch (.+) has no upstream branch\.)",
        r"fatal: \1\nTo push the current branch and set the remote as upstream, use\n\n"
        r"    git push --set-upstream origin \2\n\n"
        "To have this happen automatically for branches without a tracking\n"
        "upstream, see 'push.autoSetupRemote' in 'git help config'.",
    ),
    (
        "push",
        "git says: (src refspec .+)",
        r"error: \1\nerror: failed to push some refs to the remote",
    ),
    (
        "pull",
        "branch '.+' follows no other branch",
        "Invalid value for repository: Please specify the remote you want to fetch from",
    ),
    (
        "branch",
        "HEAD is on branch '(.+)', which therefore stays",
        r"Cannot delete the branch '\1' which you are currently on.",
    ),
    (
        "branch",
        r"git says: The branch '(.+)' is not fully merged\.",
        r"error: The branch '\1' is not fully merged.\n"
        r"If you are sure you want to delete it, run 'git branch -D \1'.",
    ),
    (
        "pull",
        "HEAD is on no branch",
        "You are not currently on a branch. Please specify which branch you want to merge with.",
    ),
    ("branch", "no commit is named '(.+)'", r"fatal: not a valid object name: '\1'"),
    ("tag", "no commit is named '(.+)'", r"fatal: Failed to resolve '\1' as a valid ref."),
    (
        "tag reflog gc remote fetch push",
        ".+ is not in a havasu-vc repository",
        "fatal: not a git repository (or any of the parent directories): .git",
    ),
    ("remote", "git says: ('.*' is not a valid remote name)", r"fatal: \1"),
    ("branch", "('.*') cannot be used as a name: .*", r"fatal: \1 is not a valid branch name"),
    ("tag", "('.*') cannot be used as a name: .*", r"fatal: \1 is not a valid tag name."),
    ("branch", "name the branches to delete", "fatal: branch name required"),
    ("tag", "a new tag has one name and one revision", "fatal: too many arguments"),
    ("branch remote", r"git says: (.+)", r"error: \1"),
    ("branch", r"there is no branch '(.+)'", r"error: branch '\1' not found."),
    ("branch", r"there is a branch '(.+)' already", r"fatal: a branch named '\1' already exists"),
    ("tag", r"there is no tag '(.+)'", r"error: tag '\1' not found."),
    ("tag", r"there is a tag '(.+)' already", r"fatal: tag '\1' already exists"),
    (
        "fetch push pull",
        "git says: (src refspec .+|failed to push .+|unable to delete .+|cannot parse expected .+)",
        r"error: \1",
    ),
    ("fetch push pull", r"git says: (.+)", r"fatal: \1"),
)
"""Whole texts of errors of commands, and what Kart says there."""


def usage_of_git(command: str) -> list[str]:
    """Return the lines in which git says how one of its commands is used."""
    try:
        told = subprocess.run(["git", command, "-h"], capture_output=True, check=False, text=True)
    except OSError:
        return []
    # Outside of a repository some commands tell it on stderr.
    return (told.stdout or told.stderr).rstrip("\n").split("\n")
