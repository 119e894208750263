"""The exit codes with which Kart ends where this program has others, by text and by command."""

from __future__ import annotations

from havasu_vc.errors import ErrorKind

__all__ = [
    "CALLED_KART",
    "CODES",
    "CODES_OF_COMMANDS",
    "CODES_OF_USAGE",
    "EMPTY_SOURCE",
    "MSSQL",
    "MYSQL",
    "OF_HEAD",
    "UNKNOWN_SOURCE",
]

MSSQL, MYSQL = "mssql://[^/]+/[^/]+/[^/]+/?", "mysql://[^/]+/[^/]+/?"
"""Addresses of working copies of Kart's that this program makes none at."""

UNKNOWN_SOURCE = r"there is no file (?!\w+://)(?!.+\.(?:gpkg|shp|las|laz|tiff?)$).+"
"""A source that is not there, of a kind that Kart does not import either."""
EMPTY_SOURCE = r".+(?<!\.gpkg)(?<!\.shp): the file is empty"
"""A source without anything in it, of such a kind."""

OF_HEAD = r"HEAD[\^~@{:].*"
"""A revision reckoned from HEAD, which Kart takes for one though it is not there."""
CODES: tuple[tuple[str, int], ...] = (
    ("Could not open file 'Failed to parse JSON patch file", 1),
    ("Patch contains no author or head information", 2),
    ("Invalid value for (branch|create): A branch named '.+' already exists", 2),
    (".+ cannot be used as a name: ", 20),
    ("Merge cannot be completed until", 20),
    ("There are still unresolved meta-item conflicts", 20),
    ("Cannot import to .+ - already exists in repository", 31),
    ("Dataset path '.+' conflicts with existing path", 31),
    ("Ambiguous argument '.+'", 40),
    (r"No commit found at \[EMPTY\]|\[EMPTY\] is not a commit", 47),
    ("No table specified", 49),
)
"""Exit codes of texts of Kart's where another program would have that of the kind of error."""
_GIT_SAYS = "git says: "
CODES_OF_COMMANDS: tuple[tuple[str, ErrorKind, str, int], ...] = (
    ("add-dataset", ErrorKind.NOT_FOUND, "", 44),
    ("add-dataset", ErrorKind.NO_WORKING_COPY, "there is no working copy with a table", 44),
    ("push", ErrorKind.CONCURRENT_CHANGE, "", 1),
    ("push", ErrorKind.STATE, f"{_GIT_SAYS}(.+: \\[|src refspec |failed to push |unable to )", 1),
    ("apply", ErrorKind.NO_BRANCH, "", 40),
    ("branch", ErrorKind.NO_REVISION, "", 128),
    ("checkout", ErrorKind.INVALID_ARGUMENT, "HEAD was on no other branch", 47),
    ("switch", ErrorKind.INVALID_ARGUMENT, "HEAD was on no other branch", 43),
    ("fetch gc push reflog remote tag", ErrorKind.NO_REPOSITORY, "", 128),
    ("resolve", ErrorKind.INVALID_ARGUMENT, "only rows that both sides inserted", 50),
    ("branch", ErrorKind.INVALID_ARGUMENT, "there is a branch .+ already", 128),
    ("branch", ErrorKind.NO_BRANCH, "", 1),
    ("branch", ErrorKind.STATE, f"{_GIT_SAYS}.+ is not fully merged", 1),
    ("push", ErrorKind.STATE, f"{_GIT_SAYS}cannot parse expected", 129),
    ("push", ErrorKind.NOT_FOUND, "there is no remote", 128),
    ("push", ErrorKind.INVALID_ARGUMENT, "an empty text is no remote", 128),
    ("remote", ErrorKind.STATE, f"{_GIT_SAYS}.+ already exists", 3),
    ("remote", ErrorKind.STATE, f"{_GIT_SAYS}No such remote", 2),
    ("remote", ErrorKind.STATE, f"{_GIT_SAYS}'.*' (is not a valid|does not appear)", 128),
    ("remote", ErrorKind.STATE, f"{_GIT_SAYS}(Not a valid ref|Could not fetch)", 1),
    ("remote", ErrorKind.INVALID_ARGUMENT, "git remote: ", 129),
    ("branch tag", ErrorKind.INVALID_NAME, "", 128),
    ("pull", ErrorKind.NO_BRANCH, "branch .+ follows no other branch", 2),
    ("tag", ErrorKind.NO_REVISION, "there is no tag ", 1),
    ("tag", ErrorKind.NO_REVISION, "", 128),
    ("tag", ErrorKind.INVALID_ARGUMENT, "there is a tag .+ already", 128),
    ("checkout clone create-workingcopy init", ErrorKind.NO_SOURCE, ".+ cannot be read: ", 2),
    ("clone", ErrorKind.INVALID_ARGUMENT, ".+ is there already, and is not an empty folder", 20),
    ("import", ErrorKind.NO_SOURCE, UNKNOWN_SOURCE, 2),
    ("import", ErrorKind.NO_SOURCE, "the source has no name", 2),
    ("import", ErrorKind.INVALID_FILE, EMPTY_SOURCE, 2),
    ("clone fetch push", ErrorKind.STATE, _GIT_SAYS, 128),
    ("upgrade", ErrorKind.NO_REPOSITORY, "", 2),
    ("upgrade", ErrorKind.NO_CHANGES, "", 20),
    ("commit", ErrorKind.NO_DATASET, "", 44),
    ("commit", ErrorKind.STATE, "there is no workspace to commit from", 45),
    ("create-workingcopy", ErrorKind.INVALID_ARGUMENT, ".+ is there already", 20),
    ("create-workingcopy", ErrorKind.INVALID_ARGUMENT, ".+ is a folder", 20),
    ("create-workingcopy", ErrorKind.INVALID_FILE, ".+ cannot be used as a working copy", 20),
    ("create-workingcopy", ErrorKind.NOT_YET_SUPPORTED, ".+, not at (?!mssql|mysql)", 2),
    ("create-workingcopy", ErrorKind.UNCOMMITTED_CHANGES, "", 20),
    (
        "conflicts create-patch diff export show",
        ErrorKind.CRS,
        "'.*' is not a coordinate reference system|an empty text is no CRS",
        2,
    ),
    ("meta", ErrorKind.SCHEMA_VIOLATION, "key column .+ cannot be dropped", 20),
    ("meta", ErrorKind.SCHEMA_VIOLATION, "the schema of .+ can only be a list of columns", 20),
    ("diff", ErrorKind.INVALID_ARGUMENT, f"'{OF_HEAD}' is neither a revision", 47),
    ("log", ErrorKind.INVALID_ARGUMENT, f"'{OF_HEAD}' is neither a revision", 128),
    ("show", ErrorKind.INVALID_ARGUMENT, f"'{OF_HEAD}' is neither a revision", 47),
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
    ("import", ErrorKind.NO_SOURCE, "there is no (layer|table) ", 49),
    ("commit restore", ErrorKind.NOT_FOUND, "there is no commit yet", 42),
    ("diff", ErrorKind.NOT_FOUND, "there is no commit yet", 47),
    ("log", ErrorKind.NOT_FOUND, "there is no commit yet", 128),
    ("merge", ErrorKind.CONFLICT, r"[\d,]+ conflicts? (is|are) not resolved", 20),
    ("resolve", ErrorKind.NO_CONFLICT, "the conflict .+ is resolved already", 20),
    ("mv", ErrorKind.INVALID_NAME, ".+ cannot be used as a name: there is a dataset", 20),
    ("mv", ErrorKind.NO_DATASET, "", 40),
    ("mv", ErrorKind.INVALID_ARGUMENT, ".+ is where it is already", 20),
    ("apply", ErrorKind.PATCH, "the patch makes the dataset .+, which is there already", 20),
    ("apply", ErrorKind.PATCH, ".+: Cannot insert new feature .+ with missing fields", 20),
    ("apply", ErrorKind.PATCH, "a patch must be a JSON object", 1),
)
"""Exit codes in Kart's repositories: of which commands, kinds and beginnings of texts.

Kart says in other places of its code than ours what went wrong, so that one kind of error has
another code with each command. Whatever does not stand here has the code of its kind.
"""
_SERVED = "mssql://[^/]+(/[^/]+){1,3}"
_MAKING = "clone create-workingcopy init"
CODES_OF_USAGE: tuple[tuple[str, str, int], ...] = (
    ("branch", "name the branches to delete", 128),
    ("fetch", "--all is for each remote; name none", 128),
    ("tag", "a new tag has one name and one revision", 128),
    ("tag", "-m goes with the name of a tag", 129),
    ("branch", "a new branch has one name and one start", 129),
    ("gc", "Got unexpected extra argument", 129),
)
"""Codes of how commands were used that Kart hands to git: by command and beginning of text."""
CALLED_KART: tuple[tuple[str, ErrorKind, str, int], ...] = (
    ("resolve", ErrorKind.NOT_YET_SUPPORTED, "several conflicts ", 50),
    ("checkout clone init", ErrorKind.INVALID_ARGUMENT, "Invalid spatial filter definition", 30),
    ("init", ErrorKind.STATE, _GIT_SAYS, 128),
    ("log", ErrorKind.INVALID_ARGUMENT, "fatal: ", 128),
    ("log", ErrorKind.NO_REVISION, "", 128),
    ("apply", ErrorKind.PATCH, "(?s).+ is missing required primary key field", 20),
    ("import init", ErrorKind.NO_SOURCE, f"there is no file {_SERVED}$", 51),
    ("import init", ErrorKind.NO_SOURCE, "there is no file mssql:", 2),
    ("import init", ErrorKind.NO_SOURCE, "there is no file mysql:.*/.+/.+/.+/", 2),
    ("export", ErrorKind.INVALID_ARGUMENT, ".+ (is there|has a layer '.+') already", 20),
    ("export", ErrorKind.INVALID_ARGUMENT, ".+ is the working copy of this repository", 20),
    ("export", ErrorKind.INVALID_ARGUMENT, "there is no format '(mysql|postgresql)' ", 11),
    (_MAKING, ErrorKind.NOT_YET_SUPPORTED, f".+, not at {MSSQL}$", 51),
    (_MAKING, ErrorKind.NOT_YET_SUPPORTED, f".+, not at {MYSQL}$", 60),
    (_MAKING, ErrorKind.NOT_YET_SUPPORTED, ".+, not at ", 2),
    (_MAKING, ErrorKind.STORAGE, "postgresql:.+ cannot be reached: ", 60),
    ("checkout", ErrorKind.NO_SPATIAL_FILTER, "", 30),
    ("meta", ErrorKind.SCHEMA_VIOLATION, "", 20),
    ("merge", ErrorKind.NO_BRANCH, "", 47),
    ("switch", ErrorKind.NO_BRANCH, "a branch is expected, and .+ is one of a remote", 2),
    ("import", ErrorKind.INVALID_FILE, r".+\.tiff?: ", 2),
    ("import", ErrorKind.INVALID_ARGUMENT, ".+ is a file, and what stands behind SOURCE", 49),
    ("import", ErrorKind.INVALID_FILE, r".+\.shp: not a ", 48),
)
"""Those that hold only where this program is called `kart`."""
