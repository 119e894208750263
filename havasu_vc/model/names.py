"""Dataset paths: which ones can be made, and which ones are dangerous to meet.

A dataset's path becomes folders in git, in checkouts on every file system and in
URIs, so a new one must be good everywhere: `check_dataset_path` is strict. A path
that a repository from a stranger already holds must only be harmless, so
`unsafe_reason` names just what could reach outside of its folder or into git's.
"""

import re
import unicodedata
from collections.abc import Iterable

from havasu_vc.errors import InvalidNameError

__all__ = [
    "DATASET_MARKERS",
    "HAVASU_MARKER",
    "KART_MARKERS",
    "KART_VERSION",
    "KART_VERSION_3",
    "OLD_TABLE_MARKER",
    "OLD_VERSION",
    "POLICY_FILE",
    "TABLES",
    "TABLE_MARKER",
    "check_dataset_path",
    "parted_at_revision",
    "repeated",
    "unsafe_reason",
]

POLICY_FILE = ".havasu/policy.toml"
"""Where a repository says what a change may do."""

HAVASU_MARKER = ".havasu-dataset"
"""The folder that makes its parent a Havasu dataset."""

TABLE_MARKER = ".table-dataset"
"""The folder that makes its parent a Kart V3 table."""

OLD_TABLE_MARKER = ".sno-dataset"
"""The folder that makes its parent a Kart V2 table."""

KART_MARKERS = (TABLE_MARKER, OLD_TABLE_MARKER)
"""The markers of Kart's tables."""

TABLES = [HAVASU_MARKER, *KART_MARKERS]
"""The markers of datasets whose rows can be read."""

DATASET_MARKERS = [*TABLES, ".raster-dataset.v1", ".point-cloud-dataset.v1"]
"""Names of the folders that hold a dataset's internals, of every kind we know."""

KART_VERSION = ".kart.repostructure.version"
"""A file in the root of every commit of Kart's: without it Kart takes the form for its first."""

KART_VERSION_3 = b"3\n"
"""The bytes of that file where tables are V3."""

OLD_VERSION = ".sno.repository.version"
"""The file of V2."""

LONGEST_PATH = 512
LONGEST_COMPONENT = 128

# Compiled when one is looked for: every command loads this, and few names need them.
_CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
_FORBIDDEN = r'[:<>"|?*\\]'
_RESERVED_ON_WINDOWS = r"(?i:(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?)"
# Characters that HFS+ leaves out when it compares names, so `.g\u200cit` would be `.git` there.
_IGNORED_ON_HFS = "[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]"


def parted_at_revision(text: str, known: Iterable[str] = ()) -> tuple[str, str, str]:
    """Return the dataset, the sign and the revision of `DATASET@REV`, as `str.partition` does.

    A path may have an @ itself, as a revision may: then the longest of those `known` is meant.

    >>> parted_at_revision("roads@HEAD~2"), parted_at_revision("a@b", known=("a@b",))
    (('roads', '@', 'HEAD~2'), ('a@b', '', ''))
    """
    meant = [path for path in known if f"{text}@".startswith(f"{path}@")]
    start = len(max(meant, key=len, default=""))
    dataset, sign, revision = text[start:].partition("@")
    return text[:start] + dataset, sign, revision


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that stand more than once, in order.

    >>> repeated(["b", "a", "c", "b", "a"])
    ['a', 'b']
    """
    seen: set[str] = set()
    twice: set[str] = set()
    for name in names:
        (twice if name in seen else seen).add(name)
    return sorted(twice)


def check_dataset_path(path: str, existing: Iterable[str] = ()) -> None:
    """Raise InvalidNameError unless a dataset can be made at `path` beside `existing` ones.

    >>> check_dataset_path("transport/roads")
    >>> check_dataset_path("../roads")
    Traceback (most recent call last):
    havasu_vc.errors.InvalidNameError: '../roads' cannot be used as a name: it holds '..'
    """
    reason = unsafe_reason(path) or _unwise_reason(path) or _clash(path, existing)
    if reason is not None:
        there = next((each for each in existing if _fold(each) == _fold(path)), path)
        twin = (f"write {there!r} to mean that dataset, or give another name",)
        raise InvalidNameError(path, reason, hints=twin if there != path else ())


def unsafe_reason(path: str) -> str | None:
    """Return why a path could do harm when it is turned into folders, or None.

    >>> unsafe_reason("a/.git/hooks")
    "'.git' belongs to git"
    """
    if not path:
        return "it is empty"
    if path.startswith("/"):
        return "it is absolute"
    if "\\" in path:
        return "it holds a backslash"
    if not (path.isascii() and path.isprintable()) and re.search(_CONTROL, path):
        return "it holds a control character"
    for component in path.split("/"):
        if component in ("", ".", ".."):
            return f"it holds {component!r}" if component else "a part of it is empty"
        if _is_git(component):
            return f"{component!r} belongs to git"
    if re.match(r"[A-Za-z]:", path):
        return "it names a drive"
    return None


def _is_git(component: str) -> bool:
    # NTFS drops trailing dots and spaces and has streams (`.git::$INDEX_ALLOCATION`).
    shown = component if component.isascii() else re.sub(_IGNORED_ON_HFS, "", component)
    plain = shown.split(":")[0].rstrip(" .").casefold()
    return plain == ".git" or (plain.startswith("git~") and plain[4:].isdecimal())


def _unwise_reason(path: str) -> str | None:
    if len(path.encode("utf-8")) > LONGEST_PATH:
        return f"it is longer than {LONGEST_PATH} bytes"
    if unicodedata.normalize("NFC", path) != path:
        return "its characters are not in Unicode's composed form (NFC)"
    if re.search(_IGNORED_ON_HFS, path):
        return "it holds an invisible character"
    if match := re.search(_FORBIDDEN, path):
        return f"it holds {match.group()!r}"
    for component in path.split("/"):
        if len(component.encode("utf-8")) > LONGEST_COMPONENT:
            return f"a part of it is longer than {LONGEST_COMPONENT} bytes"
        if component != component.strip():
            return f"{component!r} begins or ends with a space"
        if component.startswith("."):
            return f"{component!r} begins with a dot"
        if component.endswith("."):
            return f"{component!r} ends with a dot"
        if component.startswith("-"):
            return f"{component!r} begins with a dash"
        if re.fullmatch(_RESERVED_ON_WINDOWS, component):
            return f"{component!r} is reserved on Windows"
    return None


def _clash(path: str, existing: Iterable[str]) -> str | None:
    folded = _fold(path)
    for other in existing:
        theirs = _fold(other)
        if theirs == folded:
            return (
                "there is a dataset of that name"
                if other == path
                else f"some file systems cannot tell it from the dataset {other!r}"
            )
        if folded.startswith(theirs + "/"):
            return f"it would be inside the dataset {other!r}"
        if theirs.startswith(folded + "/"):
            return f"the dataset {other!r} would be inside it"
    return None


def _fold(path: str) -> str:
    return unicodedata.normalize("NFC", path.casefold())
