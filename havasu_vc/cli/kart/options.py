"""Kart's commands, their arguments and their options, as its errors name them.

Where a word is typed wrong Kart names what it has that is like it, and an error of usage begins
with the arguments of the command. This program has more commands and options, which are none of
Kart's to name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType

__all__ = [
    "THROUGH_GIT",
    "like_command",
    "like_option",
    "lines_without_source",
    "started_by",
    "usage_lines",
]

THROUGH_GIT = frozenset("branch config fetch fsck gc push reflog remote tag".split())
"""Commands whose arguments Kart hands to git, which says what is wrong with them."""
_USAGES: Mapping[str, str] = MappingProxyType(
    {
        "": "COMMAND [ARGS]...",
        "add-dataset": "TABLE_NAME",
        "apply": "PATCH_FILE",
        "branch": "[ARGS]...",
        "build-annotations": "",
        "checkout": "[REFISH]",
        "clone": "URL [DIRECTORY]",
        "commit": "[FILTERS]...",
        "commit-files": "KEY=VALUE [KEY=VALUE...]",
        "config": "[ARGS]...",
        "conflicts": "[FILTERS]...",
        "create-patch": "REFISH",
        "create-workingcopy": "[TABULAR_LOCATION]",
        "data": "COMMAND [ARGS]...",
        "data ls": "[REFISH]",
        "data rm": "[DATASETS]...",
        "data version": "",
        "diff": "[REVISIONS] [--] [FILTERS]",
        "export": "DATASET [EXPORT_TYPE:]DESTINATION",
        "table-export": "DATASET [EXPORT_TYPE:]DESTINATION",
        "fetch": "[ARGS]...",
        "fsck": "[FSCK_ARGS]...",
        "gc": "[ARGS]...",
        "git": "[ARGS]...",
        "helper": "[ARGS]...",
        "import": "SOURCE ([SOURCES...] or [TABLES...])",
        "table-import": "SOURCE ([SOURCES...] or [TABLES...])",
        "init": "[DIRECTORY]",
        "install": "COMMAND [ARGS]...",
        "install tab-completion": "",
        "lfs+": "COMMAND [ARGS]...",
        "lfs+ fetch": "[COMMITS]...",
        "lfs+ gc": "",
        "lfs+ ls-files": "[REF1] [REF2]",
        "lfs+ pre-push": "[REMOTE_NAME] [REMOTE_URL]",
        "log": "[REVISIONS] [--] [FILTERS]",
        "merge": "COMMIT",
        "meta": "COMMAND [ARGS]...",
        "meta get": "[DATASET] [KEYS]...",
        "meta set": "DATASET KEY=VALUE [KEY=VALUE...]",
        "mv": "OLD_NAME NEW_NAME",
        "pull": "REMOTE REFISH",
        "push": "[ARGS]...",
        "reflog": "[ARGS]...",
        "remote": "[ARGS]...",
        "reset": "[REFISH]",
        "resolve": "[CONFLICT_LABELS]",
        "restore": "[FILTERS]...",
        "show": "[REVISION] [--] [FILTERS]",
        "spatial-filter": "COMMAND [ARGS]...",
        "spatial-filter resolve": "REFERENCE",
        "spatial-filter index": "[COMMITS]...",
        "status": "",
        "switch": "[REFISH]",
        "tag": "[ARGS]...",
        "upgrade": "SOURCE DEST",
    }
)
"""The words after the options of each command."""
_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "add-dataset": "--message --output-format",
        "apply": "--commit --no-commit --allow-empty --ref --amend",
        "branch": "--output-format",
        "build-annotations": "--all-reachable",
        "checkout": "--force --discard-changes --guess --no-guess --spatial-filter "
        "--dataset --not-dataset",
        "clone": "--bare --checkout --no-checkout --workingcopy-location "
        "--workingcopy-path --workingcopy --progress --quiet --depth --filter "
        "--branch --spatial-filter --spatial-filter-after-clone "
        "--spatial-filter-during-clone --bundle-uri",
        "commit": "--message --allow-empty --allow-spatial-filter-conflicts "
        "--convert-to-dataset-format --no-convert-to-dataset-format "
        "--output-format",
        "commit-files": "--message --ref --amend --remove-empty-files --allow-empty",
        "conflicts": "--output-format --output --exit-code --json-style --summarise "
        "--summarize --crs",
        "create-patch": "--json-style --output --diff-format --crs",
        "create-workingcopy": "--discard-changes --force --delete-existing --no-delete-existing "
        "--parts",
        "data ls": "--output-format --with-dataset-types --without-dataset-types",
        "data rm": "--message --output-format",
        "data version": "--output-format",
        "diff": "--output-format --exit-code --crs --output --json-style "
        "--only-feature-count --add-feature-count-estimate "
        "--convert-to-dataset-format --no-convert-to-dataset-format "
        "--diff-files --diff-format --delta-filter --html-template "
        "--sort-keys --no-sort-keys",
        "export": "--list-formats",
        "table-export": "--list-formats --ref --layer --crs --dataset-creation-option "
        "--layer-creation-option --overwrite --primary-key-as-field "
        "--no-primary-key-as-field --primary-key-as-fid "
        "--no-primary-key-as-fid --override-geometry-type "
        "--drop-null-geometry-features --drop-empty-geometry-features "
        "--drop-geometry",
        "fetch": "--progress --quiet",
        "fsck": "--reset-dataset",
        "helper": "--socket --timeout",
        "import": "--message --list-formats --replace-existing --checkout --no-checkout "
        "--dataset-path --dataset --link",
        "table-import": "--all-tables --message --table-info --list --list-formats "
        "--output-format --primary-key --replace-existing --replace-ids "
        "--allow-empty --checkout --no-checkout",
        "init": "--import --checkout --no-checkout --message --bare --initial-branch "
        "--workingcopy-location --workingcopy-path --workingcopy "
        "--spatial-filter",
        "install tab-completion": "--shell",
        "lfs+ fetch": "--remote --spatial-filter --no-spatial-filter --dry-run",
        "lfs+ gc": "--dry-run",
        "lfs+ ls-files": "--size --all",
        "lfs+ pre-push": "--dry-run",
        "log": "--output-format --output --with-feature-count --with-change-counts "
        "--max-count --skip --since --after --until --before --author "
        "--committer --grep --decorate --no-decorate --decorate-refs --graph",
        "merge": "--ff --no-ff --ff-only --dry-run --output-format --message --into "
        "--no-editor --fail-on-conflict --continue --abort",
        "meta get": "--output-format --ref --with-dataset-types",
        "meta set": "--message --amend",
        "mv": "--message --output-format",
        "pull": "--ff --no-ff --ff-only --progress --quiet",
        "push": "--progress --quiet",
        "reset": "--discard-changes --force",
        "resolve": "--with --with-file --renumber",
        "restore": "--source",
        "show": "--output-format --exit-code --crs --output --only-feature-count "
        "--add-feature-count-estimate --diff-files --diff-format "
        "--delta-filter --sort-keys --no-sort-keys",
        "spatial-filter resolve": "--envelope --output-format",
        "spatial-filter index": "--clear-existing --dry-run",
        "status": "--output-format --list-untracked-tables",
        "switch": "--create --force-create --discard-changes --guess --no-guess",
    }
)
"""The options of each command in their long form, but for `--help`."""


_OTHERS = {"import": "table-import", "export": "table-export", "table-export": "table-export"}


def usage_lines(path: str, by_name: str | None = None) -> Sequence[str]:
    """Return the lines with which Kart begins an error of how a command was used.

    `by_name` is the name that it was called by, where it has another.
    """
    if path not in _USAGES:
        return ()
    # Kart starts two commands by others, which then know no name but their own.
    own = f"kart {by_name or path}".rstrip()
    name = own if by_name else _OTHERS.get(path, own)
    return (
        f"Usage: {name} [OPTIONS] {_USAGES[path]}".rstrip(),
        f"Try '{name} --help' for help.",
        "",
    )


def lines_without_source(by_name: str | None) -> Sequence[str]:
    """Return the lines with which an import begins that names nothing to be taken in."""
    name = f"kart {by_name or 'import'}"
    usage = "SOURCE [[SOURCES...] or [DATASETS...]]" if by_name is None else _USAGES[by_name]
    needed = f"At least one SOURCE is required for {name}."
    return (needed, f"Usage: {name} [OPTIONS] {usage}", f"Try '{name} --help' for help.", "")


def started_by(path: str) -> str:
    """Return what Kart calls the command by which it starts another, in an error of that one."""
    name = _OTHERS[path]
    return f"{name} {_USAGES[path]} {name}"


def like_option(path: str, option: str) -> Sequence[str] | None:
    """Return options of Kart's command that are spelt alike; None where Kart names none.

    >>> like_option("commit", "--messag"), like_option("log", "--grap")
    (['--message'], [])
    """
    if path == "log":
        return []  # Kart reads the options of `log` by itself
    return (
        get_close_matches(option, [*_OPTIONS[path].split(), "--help"]) if path in _OPTIONS else None
    )


def like_command(name: str, path: str = "") -> list[str]:
    r"""Return Kart's lines that name its commands spelt like one that it has not.

    >>> like_command("comit")
    ['', 'The most similar command is', '\tcommit', '']
    """
    group = path.split()[:1]
    names = [each.split()[-1] for each in _USAGES if each and each.split()[:-1] == group]
    near = get_close_matches(name, names)
    if not near:
        return [""]
    verb = "commands are" if near[1:] else "command is"
    return ["", f"The most similar {verb}", *(f"\t{each}" for each in near), ""]
