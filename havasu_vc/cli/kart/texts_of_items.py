"""Errors of meta items and of what conflicts are resolved as Kart says them.

As in `kart.texts`, which has all others.
"""

from __future__ import annotations

__all__ = ["ITEM_TEXTS"]

ITEM_TEXTS: tuple[tuple[str, str, str], ...] = (
    (
        "commit-files meta",
        "'=.*' gives no item a value",
        "Invalid value for 'KEY=VALUE [KEY=VALUE...]': Key should not be empty",
    ),
    (
        "resolve",
        "several conflicts cannot be decided at once, called kart",
        "Sorry, resolving multiple conflicts at once is not yet supported "
        "(except when using --renumber)",
    ),
    (
        "resolve",
        "say how: --with, .*",
        "Choose a resolution using --with or --with-file or --renumber",
    ),
    ("resolve", "name conflicts, or all of them with --all", "Missing argument: CONFLICT_LABEL"),
    (
        "resolve",
        "conflicts are resolved in one way at a time",
        "Illegal usage: '--with' is mutually exclusive with '--with-file'.",
    ),
    (
        "resolve",
        "the working copy has no row for (.+)",
        r"No feature found at \1 - to resolve a conflict by deleting the feature, use "
        "--with=delete",
    ),
    (
        "resolve",
        "no conflict that waits to be renumbered is named '(.+)'",
        r"No matching conflict(s) found at \1",
    ),
    ("resolve", "no conflict that waits is named '(.+)'", r"No conflict found at \1"),
    ("resolve", "the conflict '(.+)' is resolved already", r"Conflict at \1 is already resolved"),
    (
        "resolve",
        r"Invalid value for '--with-file': '(.+)': No such file or directory",
        r"Invalid value for '--with-file': File '\1' does not exist.",
    ),
    (
        "resolve",
        "only rows that both sides inserted under one key can be renumbered",
        "The --renumber option only works for unresolved insert/insert conficts with integer "
        "primary-keys. There are no matching conflicts that can be renumbered.",
    ),
    (
        "resolve",
        "(Invalid value for '--with': '.*' is not one of) 'ours', .*",
        r"\1 'ancestor', 'ours', 'theirs', 'delete', 'workingcopy'.",
    ),
    (
        "meta",
        "give an ITEM=VALUE, or --unset ITEM",
        "Missing argument 'KEY=VALUE [KEY=VALUE...]'.",
    ),
    (
        "meta",
        "'(.+)' gives no item a value",
        r"Invalid value for 'KEY=VALUE [KEY=VALUE...]': ('\1',) should be of the form KEY=VALUE",
    ),
    (
        "meta",
        "there is no dataset '(.+)' at HEAD",
        r"Patch contains changes for dataset '\1' which is not in this repository",
    ),
    (
        "meta",
        "the schema of (.+) can only be a list of columns",
        r"Patch creates dataset '\1' which already exists in this repository",
    ),
    (
        "meta",
        r"the value of (\S+) is not JSON: (.*)",
        r"Invalid value: \1 is not valid JSON:\n\2",
    ),
    (
        "import",
        "--(table-info) is not JSON: (.*)",
        r"Invalid value for '--\1': Invalid JSON: \2",
    ),
)
"""Whole texts of errors of commands, and what Kart says there."""
