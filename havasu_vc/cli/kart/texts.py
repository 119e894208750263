"""Errors as Kart says them, where this program says something else.

The tables that `as_kart` looks them up in. A pattern is of a whole text, but where it says
so; what is said instead may take parts of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from havasu_vc.cli.kart.codes import OF_HEAD
from havasu_vc.errors import ErrorKind

__all__ = ["AMBIGUOUS", "HOW_TO_PART", "TEXTS", "WORDS"]

WORDS: Mapping[ErrorKind, str] = MappingProxyType(
    {
        ErrorKind.NO_REPOSITORY: "Current directory is not an existing Kart repository",
        ErrorKind.NO_CHANGES: "No changes to commit",
    }
)
_UNCOMMITTED = "You have uncommitted changes in your working copy."
_FIRST = (
    "\nCommit these changes first (`kart commit`) or just discard them by adding the option "
    "`--discard-changes`."
)
_OR_RESTORE = (
    "\nCommit these changes (`kart commit`) or discard these changes (`kart restore`) first."
)
HOW_TO_PART = (
    "separate paths from revisions, like this:\n'kart <command> [<revision>...] -- [<filter>...]'"
)
"""The end of what Kart says of `--`."""
_HOW_TO_TELL_APART = f"\nUse '--' to {HOW_TO_PART}"
AMBIGUOUS = "Ambiguous argument '"
_BRANCH_IS_THERE = r"git says: a branch named '(.+)' already exists"
_BARE = 'Repository is "bare": it has no working copy.'
_NO_WORKING_COPY = 'Repository has no working copy.\n  (use "kart create-workingcopy")'
_FORM = "Invalid value for '-o' / '--output-format': "
_NO_FORM = "Invalid value for '--output-format' / '-o': invalid choice: "
TEXTS: tuple[tuple[str, str, str], ...] = (
    (
        "meta",
        f"{_FORM}'(.+)' is not one of 'text', 'json'.",
        rf"{_NO_FORM}\1. (choose from text, json)",
    ),
    (
        "commit conflicts diff log resolve restore show",
        "'(.*)' names no dataset",
        r"Invalid filter format, should be '<dataset>' or '<dataset>:<primary_key>': got '\1'",
    ),
    (
        "",
        "the revision ('.+') stands behind the filter ('.+')",
        r"Filter argument \2 should go after revision argument \1" + _HOW_TO_TELL_APART,
    ),
    (
        "show",
        "`show` takes one revision, and '(.+)' is another beside '(.+)'",
        r"Invalid value: Can only show a single revision - can't show \2, \1",
    ),
    (
        "diff",
        r"'(.+\.\..+?)\.\.\.(.+)' is not a range of two revisions",
        r"Invalid value: Can only show a single range - can't show \1, \2",
    ),
    (
        "apply restore",
        "(?:(?:edited columns|datasets) cannot be restored as they are elsewhere|columns cannot be "
        "added or dropped as edits): (.+)",
        "Sorry, this operation is not yet supported when there are structural changes. Structural "
        r"changes are affecting:\n\1",
    ),
    (
        "restore",
        "edited columns cannot be restored in part: (.+)",
        "Sorry, this type of filter is not yet supported when there are structural changes. "
        r"Unfilterable structural changes are affecting:\n{'\1'}",
    ),
    (
        "diff show",
        "'.+' is no half of a change",
        "Invalid value for '--delta-filter': Delta filter only accepts any subset of the "
        "following comma separated keys: --,-,+,++",
    ),
    (
        "conflicts create-patch diff export show",
        "'(EPSG:[^:]*)' is not a coordinate reference system that is known",
        r"Invalid value for '--crs': Invalid or unknown coordinate reference system: '\1' "
        "(PROJ: proj_create_from_database: crs not found)",
    ),
    (
        "conflicts create-patch diff export show",
        "'([^:]+| .*|\\{.*\\})' is not a coordinate reference system that is known",
        r"Invalid value for '--crs': Invalid or unknown coordinate reference system: '\1' "
        "(OGR Error: Corrupt data)",
    ),
    (
        "conflicts create-patch diff show",
        "an empty text is no CRS",
        "Invalid value for '--crs': Invalid or unknown coordinate reference system: '' "
        "(OGR Error: Corrupt data)",
    ),
    (
        "log",
        "what commits changed is counted in -o json and json-lines",
        "--with-change-counts requires --output-format=json or json-lines",
    ),
    ("merge", "give a revision to merge, --continue or --abort", "Missing argument 'COMMIT'."),
    (
        "merge",
        "only one revision can be merged at a time, not ([^ ]+) as well",
        r"Got unexpected extra argument (\1)",
    ),
    (
        "conflicts diff show",
        f"{_FORM}'(?:json|json-lines|geojson):(.+)' is not one of .+",
        rf"{_NO_FORM}\1. (choose from compact, extracompact, pretty)",
    ),
    (
        "conflicts diff show",
        f"{_FORM}'(text|quiet|feature-count|html)(:.+)' is not one of .+",
        r"Invalid value for '--output-format' / '-o': Output format '\1' doesn't currently "
        r"accept any qualifiers (got: '\2'",
    ),
    (
        "diff show",
        f"{_FORM}'(.+)' is not one of .+",
        rf"{_NO_FORM}\1. (choose from text, json, geojson, quiet, feature-count, html, json-lines)",
    ),
    (
        "conflicts",
        f"{_FORM}'(.+)' is not one of .+",
        rf"{_NO_FORM}\1. (choose from text, json, geojson, quiet)",
    ),
    (
        "log",
        f"{_FORM}'(.+)' is not one of .+",
        rf"{_NO_FORM}\1. (choose from text, json, json-lines)",
    ),
    (
        "log",
        f"{_FORM}JSON is laid out .+, not '(.+)'",
        rf"{_NO_FORM}\1. (choose from compact, extracompact, pretty)",
    ),
    ("", f"{_FORM}(.*)", r"Invalid value for '--output-format' / '-o': \1"),
    (
        "",
        "(Invalid value for '--json-style': '.*' is not one of) 'pretty', .*",
        r"\1 'extracompact', 'compact', 'pretty'.",
    ),
    ("", r"(Invalid value for .+: '.+' is not a valid integer) range\.", r"\1."),
    (
        "switch",
        "-c and -C contradict each other",
        "Invalid value: -c/--create and -C/--force-create are incompatible",
    ),
    (
        "merge",
        "--no-ff and --ff-only contradict each other",
        "Invalid value for --ff-only: Conflicting parameters: --no-ff & --ff-only",
    ),
    (
        "commit-files",
        "a first commit of files alone is not made, called kart",
        "Sorry, using `kart commit-files` to create the initial commit is not yet supported",
    ),
    (
        "commit-files",
        "the commit has no message: -m gives one",
        "Aborting commit due to empty commit message.",
    ),
    (
        "commit-files",
        "'(?!=)(.+)' gives no item a value",
        r"Invalid value for 'KEY=VALUE [KEY=VALUE...]': ('\1',) should be of the form KEY=VALUE",
    ),
    ("mv", r"Missing argument 'DATASET'\.", "Missing argument 'OLD_NAME'."),
    ("mv", "(.+) is where it is already", r"Dataset '\1' already exists in repository"),
    ("mv", r"Missing argument 'PATH'\.", "Missing argument 'NEW_NAME'."),
    ("add-dataset", "name tables, or give --all-layers", "Missing argument 'TABLE_NAME'."),
    (
        "import",
        r"Missing argument 'SOURCE'\.",
        "Missing argument 'SOURCE [[SOURCES...] or [DATASETS...]]'.",
    ),
    (
        "checkout",
        "'(.+)' is checked out, and no other revision beside it, as '(.+)'",
        r"Got unexpected extra argument (\2)",
    ),
    (
        "commit",
        "Aborting commit due to conflicting primary key values: .+",
        "Aborting commit due to conflicting primary key values - use "
        "--allow-spatial-filter-conflicts to commit anyway (this will overwrite some existing "
        "features that are outside of the current spatial filter)",
    ),
    (
        "commit-files meta",
        "(.+) cannot be read: (No such file or directory|Is a directory)",
        r"Invalid value for 'KEY': '\1': \2",
    ),
    ("checkout", "there is no commit yet for a branch to begin at", "No commit found at HEAD"),
    ("switch", "HEAD was on no other branch before", "Branch '-' not found."),
    ("checkout", "HEAD was on no other branch before", "No commit found at -"),
    ("create-patch", r"Missing argument 'COMMIT'\.", "Missing argument 'REFISH'."),
    ("switch", "there is no commit yet for a branch to begin at", "No commit found at HEAD"),
    (
        "checkout",
        "No dataset (.*) to leave out at (.+)",
        r"Invalid value for not-dataset: No dataset \1 at commit \2",
    ),
    (
        "checkout",
        "No dataset (.*) at (.+)",
        r"Invalid value for dataset: No dataset \1 at commit \2",
    ),
    (
        "checkout",
        "(.+) is to be checked out, and not to be",
        r"Invalid value for dataset: Dataset \1 should not be present in both --dataset and "
        "--not-dataset",
    ),
    (
        "merge",
        "a merge of Kart's, of .+, is half done",
        "A merge is already ongoing - see `kart merge --abort` or `kart merge --continue`",
    ),
    (
        "",
        "a merge of Kart's, of .+, is half done",
        '`kart COMMAND` does not work while the Kart repo is in "merging" state.\n'
        "Use `kart merge --abort` to abandon the merge and get back to the previous state.",
    ),
    (
        "",
        "there is no merge to go on with, nor a rebase, cherry-pick or revert",
        '`kart COMMAND` only works when the Kart repo is in "merging" state, but it is in "normal" '
        "state.",
    ),
    ("add-dataset", "the table '(.+)' is a dataset already", r"Table '\1' is already tracked"),
    (
        "create-workingcopy",
        r"(A tabular working copy is already configured at .+), not at .+",
        r"\1\nEither delete it with --delete-existing, or just abandon it with "
        "--no-delete-existing.",
    ),
    (
        "create-workingcopy",
        r"(A tabular working copy is already configured at .+)",
        r"\1\nSpecify --delete-existing to delete and recreate it.",
    ),
    (
        "lfs+",
        r"lfs\+ has no command '(.+)'",
        r"kart: '\1' is not a kart command. See 'kart --help'.",
    ),
    (
        "data diff export lfs+ log meta",
        r"no commit is named '(.+)'",
        r"\1 is not a ref, commit or tree",
    ),
    (
        "export",
        "(.+) has a layer '(.+)' already",
        r"Layer \2 already exists in \1 - to overwrite, add the --overwrite flag.",
    ),
    (
        "export",
        "there is no format '(.+)' to export to; .*",
        r"Destination format \1 not recognized",
    ),
    (
        "export",
        "Missing argument .*|No such option '--[ld][cs]c?o'.*",
        "Usage: kart table-export DATASET [EXPORT_TYPE:]DESTINATION",
    ),
    ("log", "--graph prints text of datasets; .*", "JSON output and --graph and not compatible"),
    (
        "log",
        "there is no commit yet",
        "fatal: your current branch 'main' does not have any commits yet",
    ),
    ("commit", "there is no dataset '.+' at HEAD", "No changes to commit"),
    (
        "add-dataset apply commit data merge meta mv pull",
        "the message is empty; nothing is committed",
        "Aborting commit due to empty commit message.",
    ),
    (
        "import",
        "'(.+)' cannot be used as a name: it names a drive",
        "Dataset path '\\1' may not contain any of these characters: :<>\"|?*",
    ),
    (
        "import",
        r"'(.+)' cannot be used as a name: (?:it holds '\.\.?'|'.+' (?:begins|ends) with a dot)",
        r"Dataset path '\1' may not contain a component starting or ending with a '.'",
    ),
    (
        "import",
        "'(.+)' cannot be used as a name: '(.+)' is reserved on Windows",
        r"Dataset path '\1' may not contain a component called \2",
    ),
    (
        "import",
        "both (.+) and (.+) would become the dataset '(.+)'",
        r"Invalid value for tables: Can't import both \2 and \1 as \3",
    ),
    ("import", "there is no (layer|table) '(.*)' in .+", r"Table '\2' not found"),
    ("import", "there is no table in (.+)", r"No tables found in \1"),
    ("import", "(.+) is a file, and what stands behind SOURCE .+", r"Table '\1' not found"),
    (
        "import",
        r"(.+) is the working copy of this repository",
        "Import-source is already inside working-copy.\n"
        "The `kart import` command creates a new Kart dataset by copying from an import-source "
        "that is external to Kart.\n"
        "To have Kart start tracking a table that is already inside the working copy, use `kart "
        "add-dataset TABLENAME`\n"
        "To see a list of tables inside the working copy that are untracked, use `kart status "
        "--list-untracked-tables`",
    ),
    (
        "checkout clone init",
        r"(.+) cannot be read: (No such file or directory)",
        r"Invalid value for '--spatial-filter': '\1': \2",
    ),
    (
        "diff show",
        r"(.+) cannot be read: No such file or directory",
        r"Invalid value for '--html-template': Path '\1' does not exist.",
    ),
    (
        "clone",
        "a clone takes no spatial filter by its name, .+",
        "Sorry, loading spatial references by reference is not yet supported",
    ),
    ("apply", r"Invalid value for 'PATCH': (.*)", r"Invalid value for 'PATCH_FILE': \1"),
    (
        "apply",
        r"feature .+ has `\*`, as minimal .+",
        "Sorry, minimal patches with * values are no longer supported.",
    ),
    (
        "apply",
        "the patch makes the dataset ('.+'), which is there already",
        r"Patch creates dataset \1 which already exists in this repository",
    ),
    ("apply", r"Missing argument 'PATCH'\.", "Missing argument 'PATCH_FILE'."),
    (
        "data rm",
        r"Missing argument 'DATASET\.\.\.'\.",
        "Specify a dataset to delete: eg `kart data rm DATASET`",
    ),
    (
        "",
        r"(?:No such|there is no) command '(.+?)'.*",
        r"kart: '\1' is not a kart command. See 'kart --help'.",
    ),
    (
        "add-dataset",
        r"(?:the|there is no) working copy (?:has no|with a) table '(.*?)'(?: that is no .+)?",
        r"Table '\1' is not found\n\nTry running 'kart status --list-untracked-tables'",
    ),
    ("mv", r"there is no dataset '(.*)' at HEAD", r"Dataset '\1' not found in repository"),
    (
        "mv",
        r"'(.+)' cannot be used as a name: there is a dataset of that name",
        r"Dataset '\1' already exists in repository",
    ),
    ("export", r"there is no dataset '(.+)' at .+", r"No such dataset: \1"),
    (
        "data rm",
        r"there is no dataset '(.*)' at HEAD",
        r"Cannot delete dataset at path '\1' since it does not exist",
    ),
    ("upgrade", '"(.+)" isn\'t empty', 'Invalid value for DEST: "\\1" isn\'t empty'),
    ("init", '"(.+)" isn\'t empty', 'Invalid value for directory: "\\1" isn\'t empty'),
    ("clone", r"git says: (.+)", r"fatal: \1\nError: Error calling git clone"),
    ("init", r"git says: (.+)", r"fatal: \1\nError: Error calling git init"),
    ("switch", r"there is no branch '(.+)'", r"Branch '\1' not found."),
    (
        "switch",
        "a branch is expected, and '(.+)' is one of a remote",
        r"Invalid value for refish: A branch is expected, got remote branch \1",
    ),
    ("switch", r"Missing argument 'BRANCH'\.", "Missing argument: REFISH"),
    ("merge", r"there is no branch '(.+)'", r"No commit found at \1"),
    ("apply", r"there is no branch '(.+)'", r"No such ref refs/heads/\1"),
    ("restore", r"no commit is named '(.+)'", r"\1 is not a commit or tree"),
    ("reset", r"no commit is named '(.+)'", r"\1 is not a commit"),
    (
        "show",
        r"no commit is named '(.+\.\..+)'",
        r"Invalid value: Can only show a single revision - can't show \1",
    ),
    (
        "show",
        r"'(.+\.\..+)' is neither a revision nor a dataset",
        r"Invalid value: Can only show a single revision - can't show \1",
    ),
    (
        "create-patch",
        r"no commit is named '(.+\.\..+)'",
        r"Invalid value for refish: Can only create-patch for a single ref-ish - "
        r"can't create-patch for \1",
    ),
    ("diff", r"no commit is named '(.+)'", r"\1 is not a ref, commit or tree"),
    ("diff", r"there is no commit yet", "HEAD is not a ref, commit or tree"),
    (
        "diff",
        r"a bare repository has no working copy to compare with",
        "Cannot generate working copy diff:\n" + _BARE,
    ),
    (
        "diff",
        r"there is no working copy at .+",
        "Cannot generate working copy diff:\n" + _NO_WORKING_COPY,
    ),
    (
        "commit restore",
        r"a bare repository has no working copy, .+|there is no workspace to .+",
        _BARE,
    ),
    ("commit restore", r"there is no working copy at .+", _NO_WORKING_COPY),
    (
        "commit restore",
        r"there is no commit yet",
        'Empty repository.\n  (use "kart import" to add some data)',
    ),
    (
        "create-workingcopy",
        "an empty repository has no working copy",
        "Can't create a working copy for an empty repository — first import some data with "
        "`kart import`",
    ),
    (
        "create-workingcopy",
        "a bare repository has no working copy",
        "Can't create a working copy for a bare repository",
    ),
    (
        "conflicts create-patch diff export show",
        "'(.*)' is not a coordinate reference system that is known",
        r"Invalid value for '--crs': Invalid or unknown coordinate reference system: '\1'",
    ),
    (
        "import",
        r"there is no key column '(.+)'",
        r"Cannot use column '\1' as primary key - column not found",
    ),
    (
        "",
        r".+ cannot be fast-forwarded to .*",
        "Can't resolve as a fast-forward merge and --ff-only specified",
    ),
    (
        "create-workingcopy",
        r"the working copy (.+) has edits that are not committed",
        r"You have uncommitted changes at \1." + _FIRST,
    ),
    (
        "checkout reset switch",
        r"(.+) (has|have) edits that are not committed",
        _UNCOMMITTED + _FIRST,
    ),
    ("", r"(.+) (has|have) edits that are not committed", _UNCOMMITTED + _OR_RESTORE),
    (
        "checkout",
        _BRANCH_IS_THERE,
        r"Invalid value for branch: A branch named '\1' already exists.",
    ),
    ("switch", _BRANCH_IS_THERE, r"Invalid value for create: A branch named '\1' already exists."),
    (
        "",
        r"there is a dataset '(.+)' already",
        r"Dataset path '\1' conflicts with existing path '\1'",
    ),
    (
        "",
        r"'(.+)' cannot be used as a name: some file systems cannot tell it from the dataset "
        r"'(.+)'",
        r"Dataset path '\1' conflicts with existing path '\2'",
    ),
    ("", r"(.+) lacks its file (.+)", r"Import source was missing some required files: \2"),
    ("", r"there is no file (\w+:.+)", r"'\1' doesn't appear to be valid"),
    ("", r"there is no file (.+)", r"Couldn't find '\1'"),
    ("", r"[^/]+\.\w+ cannot be written: (.+)", r"Error running GDAL OGR driver: \1"),
    (
        "",
        r"(.+) has no dataset at HEAD, nor says of which form it is",
        "Current directory is not a Kart repository (no Kart datasets found at HEAD commit)",
    ),
    (
        "",
        r"resetting the branch to HEAD changes nothing, .*",
        "Resetting the current branch to HEAD has no effect, unless you also discard changes.\n"
        "Do you mean `kart reset --discard-changes?`",
    ),
    (
        "",
        r"the patch is not JSON: .*",
        "Could not open file 'Failed to parse JSON patch file': unknown error",
    ),
    (
        "",
        r"the patch changes nothing: it has no (`.*`)",
        r"Could not open file 'Failed to parse JSON patch file: patch contains no \1 object': "
        "unknown error",
    ),
    ("", r"the patch does not apply: .*", "Patch does not apply"),
    (
        "",
        r"the patch changes the dataset '(.+)', which is not there",
        r"Patch contains changes for dataset '\1' which is not in this repository",
    ),
    ("", r"the patch does not say who made it.*", "Patch contains no author or head information"),
    ("fsck", "the working copy is missing", "Working copy missing: None"),
    ("upgrade", "(.+) holds commits already", 'Invalid value for DEST: "\\1" isn\'t empty'),
    (
        "",
        r"the repository is in Kart's form V3 already",
        "Cannot upgrade: source repository is already at latest known version (Datasets V3)",
    ),
    (
        "",
        r"the repository is in Kart's form V([01]), and forms from V2 are read here",
        r"This Kart repo uses Datasets v\1, and only Datasets v2 and v3 are supported here.",
    ),
    (
        "diff",
        f"'({OF_HEAD})' is neither a revision nor a dataset",
        r"\1 is not a ref, commit or tree",
    ),
    ("log", f"'({OF_HEAD})' is neither a revision nor a dataset", r"fatal: bad revision '\1'"),
    ("show", f"'({OF_HEAD})' is neither a revision nor a dataset", r"No commit found at \1"),
    (
        "",
        r"(?:there is no dataset )?'(.+)' (?:is neither a revision nor a dataset|on either side)",
        r"Ambiguous argument '\1' - doesn't appear to be either a revision or a filter"
        + _HOW_TO_TELL_APART,
    ),
    ("reset", r"(\[EMPTY\]) is no commit", r"\1 is not a commit"),
    ("", r"no commit is named '(.+)'|(\[EMPTY\]) is no commit", r"No commit found at \1\2"),
    (
        "",
        r"GeoJSON holds one dataset, and .+",
        "Invalid value for --output: Need to specify a directory via --output for GeoJSON "
        "with more than one dataset",
    ),
    (
        "",
        r"[\d,]+ conflicts? (?:is|are) not resolved yet",
        "Merge cannot be completed until all conflicts are resolved - see `kart conflicts`.",
    ),
    (
        "",
        r"no insert/insert conflict with a key of whole numbers waits there",
        "The --renumber option only works for unresolved insert/insert conficts with integer "
        "primary-keys. There are no matching conflicts that can be renumbered.",
    ),
    (
        "",
        r"the columns of (.+) are in conflict, which decides what its rows look like",
        r"There are still unresolved meta-item conflicts for dataset \1. "
        "These need to be resolved first.",
    ),
)
"""Whole texts of errors of commands, of all where none is named, and what Kart says there."""
