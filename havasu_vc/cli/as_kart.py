"""In Kart's place: what scripts written for Kart look for, where this program stands for it.

In a repository of Kart's, results go to stdout as Kart's do, and JSON still stands there
alone. Who wants Kart's own words as well calls this program by the name `kart`, by a link of
that name: commands in texts are then `kart ...`, hints are for terminals alone, and some errors
have the text that scripts compare.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from havasu_vc.errors import ErrorKind

if TYPE_CHECKING:
    from havasu_vc.store.repository import GitRepository

__all__ = [
    "CODES_OF_COMMANDS",
    "error_code",
    "error_text",
    "in_karts_words",
    "is_called_kart",
    "is_in_karts_place",
    "lines_after",
    "results_on_stdout",
    "stand_in",
    "stands_in",
]

_STANDS_IN = "havasu_vc.stands-in-for-kart"
_WORDS: Mapping[ErrorKind, str] = MappingProxyType(
    {
        ErrorKind.NO_REPOSITORY: "Current directory is not an existing Kart repository",
        ErrorKind.NO_CHANGES: "No changes to commit",
    }
)
_UNCOMMITTED = "You have uncommitted changes in your working copy."
_AMBIGUOUS = "Ambiguous argument '"
_SPELT = r".*[\^~{].*"
"""A text spelt as only a revision is, which names no dataset."""
_TEXTS: tuple[tuple[str, str], ...] = (
    (
        r".+ cannot be fast-forwarded to .*",
        "Can't resolve as a fast-forward merge and --ff-only specified",
    ),
    (
        r"(.+) (has|have) edits that are not committed",
        _UNCOMMITTED,
    ),
    (r"git says: a branch named '(.+)' already exists", r"A branch named '\1' already exists."),
    (
        r"there is a dataset '(.+)' already",
        r"Cannot import to \1/ - already exists in repository",
    ),
    (
        r"(.+) is the working copy of this repository",
        "Import-source is already inside working-copy.",
    ),
    (
        r"'(.+)' cannot be used as a name: some file systems cannot tell it from the dataset "
        r"'(.+)'",
        r"Dataset path '\1' conflicts with existing path '\2'",
    ),
    (
        r"(.+) lacks its file (.+)",
        r"Import source was missing some required files: \2",
    ),
    (r"there is no file (\w+:.+)", r"'\1' doesn't appear to be valid"),
    (r"there is no file (.+)", r"Couldn't find '\1'"),
    (r"[^/]+\.\w+ cannot be written: (.+)", r"Error running GDAL OGR driver: \1"),
    (
        r"(.+) has no dataset at HEAD, nor says of which form it is",
        "Current directory is not a Kart repository (no Kart datasets found at HEAD commit)",
    ),
    (
        r"resetting the branch to HEAD changes nothing, .*",
        "Resetting the current branch to HEAD has no effect, unless you also discard changes.\n"
        "Do you mean `kart reset --discard-changes?`",
    ),
    (r"the patch is not JSON: (.*)", r"Failed to parse JSON patch file: \1"),
    (
        r"the patch changes nothing: it has no (`.*`)",
        r"Failed to parse JSON patch file: patch contains no \1 object",
    ),
    (r"the patch does not apply: .*", "Patch does not apply"),
    (
        r"the patch changes the dataset '(.+)', which is not there",
        r"Patch contains changes for dataset '\1' which is not in this repository",
    ),
    (r"the patch does not say who made it.*", "Patch contains no author or head information"),
    (
        r"the repository is in Kart's form V3 already",
        "Cannot upgrade: source repository is already at latest known version (Datasets V3)",
    ),
    (
        r"the repository is in Kart's form V([01]), and forms from V2 are read here",
        r"This Kart repo uses Datasets v\1, and only Datasets v2 and v3 are supported here.",
    ),
    (rf"'({_SPELT})' is neither a revision nor a dataset", r"No commit found at \1"),
    (
        r"(?:there is no dataset )?'(.+)' (?:is neither a revision nor a dataset|on either side)",
        r"Ambiguous argument '\1' - doesn't appear to be either a revision or a filter",
    ),
    (r"no commit is named '(.+)'", r"No commit found at \1"),
    (
        r"GeoJSON holds one dataset, and rows of .+",
        "Invalid value for --output: Need to specify a directory via --output for GeoJSON "
        "with more than one dataset",
    ),
    (
        r"[\d,]+ conflicts? (?:is|are) not resolved yet",
        "Merge cannot be completed until all conflicts are resolved - see `kart conflicts`.",
    ),
    (
        r"no insert/insert conflict with a key of whole numbers waits there",
        "The --renumber option only works for unresolved insert/insert conficts with integer "
        "primary-keys. There are no matching conflicts that can be renumbered.",
    ),
    (
        r"the columns of (.+) are in conflict, which decides what its rows look like",
        r"There are still unresolved meta-item conflicts for dataset \1. "
        "These need to be resolved first.",
    ),
)
"""Whole texts of errors, where one kind of error has several: compiled where one is looked for."""
_CODES: tuple[tuple[str, int], ...] = (
    ("Failed to parse JSON patch file", 1),
    ("Patch contains no author or head information", 2),
    ("A branch named '.+' already exists", 2),
    (".+ cannot be used as a name: ", 20),
    ("Merge cannot be completed until", 20),
    ("There are still unresolved meta-item conflicts", 20),
    ("Cannot import to .+ - already exists in repository", 31),
    ("Dataset path '.+' conflicts with existing path", 31),
    ("Ambiguous argument '.+'", 40),
    ("No table specified", 49),
)
"""Exit codes of texts of Kart's where another program would have that of the kind of error."""
_GIT_SAYS = "git says: "
CODES_OF_COMMANDS: tuple[tuple[str, ErrorKind, str, int], ...] = (
    ("add-dataset", ErrorKind.NOT_FOUND, "", 44),
    ("push", ErrorKind.CONCURRENT_CHANGE, "", 1),
    ("push", ErrorKind.STATE, f"{_GIT_SAYS}(.+: \\[|src refspec |failed to push )", 1),
    ("apply", ErrorKind.NO_BRANCH, "", 40),
    ("branch", ErrorKind.INVALID_ARGUMENT, "there is a branch .+ already", 128),
    ("branch", ErrorKind.NO_BRANCH, "", 1),
    ("branch", ErrorKind.STATE, f"{_GIT_SAYS}.+ is not fully merged", 1),
    ("push", ErrorKind.NOT_FOUND, "there is no remote", 128),
    ("remote", ErrorKind.STATE, f"{_GIT_SAYS}.+ already exists", 3),
    ("remote", ErrorKind.STATE, f"{_GIT_SAYS}No such remote", 2),
    ("pull", ErrorKind.NO_BRANCH, "branch .+ follows no other branch", 2),
    ("tag", ErrorKind.NO_REVISION, "there is no tag ", 1),
    ("tag", ErrorKind.NO_REVISION, "", 128),
    ("tag", ErrorKind.INVALID_ARGUMENT, "there is a tag .+ already", 128),
    ("checkout clone create-workingcopy", ErrorKind.NO_SOURCE, ".+ cannot be read: ", 2),
    ("clone fetch push", ErrorKind.STATE, _GIT_SAYS, 128),
    ("upgrade", ErrorKind.NO_REPOSITORY, "", 2),
    ("upgrade", ErrorKind.NO_CHANGES, "", 20),
    ("commit", ErrorKind.NO_DATASET, "", 44),
    ("commit", ErrorKind.STATE, "there is no workspace to commit from", 45),
    ("create-workingcopy", ErrorKind.INVALID_ARGUMENT, ".+ is there already", 20),
    ("create-workingcopy", ErrorKind.UNCOMMITTED_CHANGES, "", 20),
    ("diff export show", ErrorKind.CRS, "'.*' is not a coordinate reference system", 2),
    ("meta", ErrorKind.SCHEMA_VIOLATION, "key column .+ cannot be dropped", 20),
    ("diff show", ErrorKind.INVALID_ARGUMENT, f"'{_SPELT}' is neither a revision", 47),
    ("diff show", ErrorKind.INVALID_ARGUMENT, "there is no dataset 'HEAD' on either side", 47),
    ("diff log show", ErrorKind.INVALID_ARGUMENT, ".+ (is neither a revision|on either side)", 40),
    ("commit-files diff meta show", ErrorKind.STORAGE, ".+ cannot be read: ", 2),
    ("checkout switch", ErrorKind.NO_BRANCH, "there is no commit yet for a branch", 47),
    ("checkout switch", ErrorKind.STATE, f"{_GIT_SAYS}a branch named .+ already exists", 2),
    ("create-patch show", ErrorKind.NO_REVISION, r"no commit is named '.*\.\.", 2),
    ("export", ErrorKind.NO_DATASET, "", 2),
    ("import", ErrorKind.INVALID_ARGUMENT, "there is a dataset .+ already", 31),
    ("import", ErrorKind.INVALID_ARGUMENT, r".+ has [\d,]+ layers", 49),
    ("import", ErrorKind.INVALID_FILE, ".+: files of type .+ cannot be imported", 2),
    ("import", ErrorKind.INVALID_NAME, ".+ cannot tell it from the dataset ", 31),
    ("import", ErrorKind.INVALID_NAME, "", 20),
    ("import", ErrorKind.NO_SOURCE, "there is no layer ", 49),
    ("commit restore", ErrorKind.NOT_FOUND, "there is no commit yet", 42),
    ("diff", ErrorKind.NOT_FOUND, "there is no commit yet", 47),
    ("log", ErrorKind.NOT_FOUND, "there is no commit yet", 128),
    ("merge", ErrorKind.CONFLICT, r"[\d,]+ conflicts? (is|are) not resolved", 20),
    ("mv", ErrorKind.INVALID_NAME, ".+ cannot be used as a name: there is a dataset", 20),
    ("mv", ErrorKind.NO_DATASET, "", 40),
)
"""Exit codes in Kart's repositories: of which commands, kinds and beginnings of texts.

Kart says in other places of its code than ours what went wrong, so that one kind of error has
another code with each command. Whatever does not stand here has the code of its kind.
"""


def is_called_kart() -> bool:
    """Return whether this program was called by Kart's name."""
    return PurePath(sys.argv[0]).stem == "kart"


def is_in_karts_place(git: GitRepository) -> bool:
    """Whether a command stands where people expect Kart: by its name, or in Kart's repository."""
    return is_called_kart() or git.follows_kart


def in_karts_words(text: str) -> str:
    """Return a text whose commands are those of the name that this program was called by."""
    return text.replace("havasu-vc", "kart") if is_called_kart() else text


def error_text(kind: ErrorKind, message: str) -> str:
    """Return an error's text: what Kart says of it, where scripts compare that."""
    return _karts_text(kind, message) if is_called_kart() else message


def _karts_text(kind: ErrorKind, message: str) -> str:
    for ours, karts in _TEXTS:
        if (found := re.fullmatch(ours, message)) is not None:
            return found.expand(karts)
    return _WORDS.get(kind, message)


def lines_after(text: str, command: str | None = None) -> tuple[str, ...]:
    """Return what Kart prints after an error: how to tell revisions from filters, or go on."""
    if not is_called_kart():
        return ()
    if text == _UNCOMMITTED and command in ("checkout", "reset", "switch"):
        return (
            "Commit these changes first (`kart commit`) or just discard them by adding the option "
            "`--discard-changes`.",
        )
    if text == _UNCOMMITTED:
        return (
            "Commit these changes (`kart commit`) or discard these changes (`kart restore`) first.",
        )
    if not text.startswith(_AMBIGUOUS):
        return ()
    return (
        "Use '--' to separate paths from revisions, like this:",
        "'kart <command> [<revision>...] -- [<filter>...]'",
    )


def error_code(kind: ErrorKind, message: str, command: str | None = None) -> int | None:
    """Return an error's exit code in Kart, where that is not the one of its kind.

    `command` is the one that ran in Kart's place, None where it ran elsewhere.
    """
    for commands, of_kind, begins, code in CODES_OF_COMMANDS if command else ():
        if of_kind == kind and command in commands.split() and re.match(begins, message):
            return code
    if command is None and not is_called_kart():
        return None
    text = _karts_text(kind, message)
    if text.startswith(_AMBIGUOUS) and not is_called_kart():
        return None  # of `restore`, which Kart lets pass
    return next((code for known, code in _CODES if re.match(known, text)), None)


def stand_in() -> None:
    """Print the results of this command as Kart does: it is about a repository of Kart's."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_STANDS_IN] = True


def stands_in(context: click.Context | None) -> bool:
    """Return whether the command of this context is about a repository of Kart's."""
    return context is not None and bool(context.meta.get(_STANDS_IN))


def results_on_stdout() -> bool:
    """Return whether what a command tells of its result goes to stdout: as text in Kart's place."""
    context = click.get_current_context(silent=True)
    if context is None or not stands_in(context):
        return False
    if getattr(context.obj, "json", None) is not None:
        return False
    form = context.params.get("output_format")
    return form is None or str(form).partition(":")[0] == "text"
