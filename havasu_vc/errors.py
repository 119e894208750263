"""Everything that can go wrong, as one tree.

Classes are grouped by what a caller would do about them; `kind` tells them apart
in code and never changes its meaning once released. `hints` name the next step.
Only `cli/errors.py` knows about exit codes.

    HavasuError
    ├── InvalidInputError (ValueError)       give something else
    │   ├── InvalidArgumentError             an option or a value of one
    │   ├── InvalidNameError                 a dataset path or a file name
    │   ├── InvalidFileError                 a file to take in is damaged or not what it claims
    │   ├── UnsupportedTypeError             a column type that cannot be kept
    │   ├── CrsError                         a coordinate reference system that is unknown
    │   ├── GeometryError                    geometry bytes that cannot be read or held
    │   ├── SchemaViolationError             rows or schema changes that break the schema
    │   ├── KeyViolationError                keys that are null or not unique
    │   └── PatchError                       a patch that does not apply
    ├── NotFoundError (LookupError)          name something else
    │   ├── RepositoryNotFoundError
    │   ├── RevisionNotFoundError
    │   ├── DatasetNotFoundError
    │   ├── SourceNotFoundError
    │   ├── RowNotFoundError
    │   ├── DataFileNotFoundError            a data file that a commit names is not here
    │   ├── NoBranchError
    │   ├── NoChangesError
    │   ├── NoConflictError
    │   ├── NoUserError
    │   ├── NoWorkingCopyError
    │   └── NoSpatialFilterError
    ├── StateError                           finish or undo something first
    │   ├── UncommittedChangesError
    │   ├── SpatialFilterConflictError
    │   ├── WorkingCopyStateError            it is of something that is not here
    │   ├── UnfinishedMergeError             a dataset whose documents do not agree
    │   ├── ConflictError                    an operation that cannot go on
    │   ├── ConcurrentChangeError            somebody else moved a ref; try again
    │   └── LockedError
    ├── CorruptionError                      restore or repair
    │   ├── CorruptDatasetError              a document in git
    │   └── CorruptDataFileError             a file in the store
    ├── UnsupportedError                     use another version or form
    │   ├── UnsupportedVersionError
    │   ├── UnsupportedRepositoryError
    │   └── NotYetSupportedError
    └── MachineError (OSError)               mend the machine
        ├── MissingProgramError              git, a JDK, an optional package
        ├── StorageError                     disk full, permission denied
        └── EngineError                      a task failed for a reason of its own
"""

import os
from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar

__all__ = [
    "ConcurrentChangeError",
    "ConflictError",
    "CorruptDataFileError",
    "CorruptDatasetError",
    "CorruptionError",
    "CrsError",
    "DataFileNotFoundError",
    "DatasetNotFoundError",
    "EngineError",
    "ErrorKind",
    "GeometryError",
    "HavasuError",
    "InvalidArgumentError",
    "InvalidFileError",
    "InvalidInputError",
    "InvalidNameError",
    "KeyViolationError",
    "LockedError",
    "MachineError",
    "MissingProgramError",
    "NoBranchError",
    "NoChangesError",
    "NoConflictError",
    "NoSpatialFilterError",
    "NoUserError",
    "NoWorkingCopyError",
    "NotFoundError",
    "NotYetSupportedError",
    "PatchError",
    "RepositoryNotFoundError",
    "RevisionNotFoundError",
    "RowNotFoundError",
    "SchemaViolationError",
    "SourceNotFoundError",
    "SpatialFilterConflictError",
    "StateError",
    "StorageError",
    "UncommittedChangesError",
    "UnfinishedMergeError",
    "UnsupportedError",
    "UnsupportedRepositoryError",
    "UnsupportedTypeError",
    "UnsupportedVersionError",
    "WorkingCopyStateError",
]


class ErrorKind(StrEnum):
    """Kinds of errors, for code that must tell. Append only."""

    ERROR = "error"
    INVALID_ARGUMENT = "invalid-argument"
    INVALID_NAME = "invalid-name"
    INVALID_FILE = "invalid-file"
    UNSUPPORTED_TYPE = "unsupported-type"
    CRS = "crs"
    GEOMETRY = "geometry"
    SCHEMA_VIOLATION = "schema-violation"
    KEY_VIOLATION = "key-violation"
    PATCH = "patch"
    NOT_FOUND = "not-found"
    NO_REPOSITORY = "no-repository"
    NO_REVISION = "no-revision"
    NO_DATASET = "no-dataset"
    NO_SOURCE = "no-source"
    NO_ROW = "no-row"
    NO_DATA_FILE = "no-data-file"
    NO_BRANCH = "no-branch"
    NO_CHANGES = "no-changes"
    NO_USER = "no-user"
    STATE = "state"
    UNCOMMITTED_CHANGES = "uncommitted-changes"
    UNFINISHED_MERGE = "unfinished-merge"
    CONFLICT = "conflict"
    CONCURRENT_CHANGE = "concurrent-change"
    LOCKED = "locked"
    CORRUPTION = "corruption"
    CORRUPT_DATASET = "corrupt-dataset"
    CORRUPT_DATA_FILE = "corrupt-data-file"
    UNSUPPORTED = "unsupported"
    UNSUPPORTED_VERSION = "unsupported-version"
    UNSUPPORTED_REPOSITORY = "unsupported-repository"
    NOT_YET_SUPPORTED = "not-yet-supported"
    MACHINE = "machine"
    MISSING_PROGRAM = "missing-program"
    STORAGE = "storage"
    ENGINE = "engine"
    NO_CONFLICT = "no-conflict"
    NO_WORKING_COPY = "no-working-copy"
    WORKING_COPY_STATE = "working-copy-state"
    NO_SPATIAL_FILTER = "no-spatial-filter"
    SPATIAL_FILTER_CONFLICT = "spatial-filter-conflict"


class HavasuError(Exception):
    """Anything that havasu-vc reports. Its text is one line for a person."""

    kind: ClassVar[ErrorKind] = ErrorKind.ERROR
    said: tuple[str, ...] = ()
    """The lines in which git said it, or Kart does, where they are others than the text."""

    def __init__(self, message: str, *, hints: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hints = hints

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders; subclasses with their own arguments still unpickle.
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(
    cls: type[HavasuError], args: tuple[object, ...], state: dict[str, object]
) -> HavasuError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class InvalidInputError(HavasuError, ValueError):
    """Something that was given cannot be used."""

    kind = ErrorKind.INVALID_ARGUMENT


class InvalidArgumentError(InvalidInputError):
    """An option or a value of one makes no sense."""


class InvalidNameError(InvalidInputError):
    """A dataset path, column or file name that is not allowed."""

    kind = ErrorKind.INVALID_NAME

    def __init__(self, name: str, reason: str, *, hints: tuple[str, ...] = ()) -> None:
        super().__init__(f"{name!r} cannot be used as a name: {reason}", hints=hints)
        self.name = name
        self.reason = reason


class InvalidFileError(InvalidInputError):
    """A file that was to be taken in is damaged, empty or not what it claims to be."""

    kind = ErrorKind.INVALID_FILE

    def __init__(self, path: str, reason: str, *, hints: tuple[str, ...] = ()) -> None:
        super().__init__(f"{path}: {reason}", hints=hints)
        self.path = path
        self.reason = reason


class UnsupportedTypeError(InvalidInputError):
    """A column has a type or a value that cannot be kept exactly."""

    kind = ErrorKind.UNSUPPORTED_TYPE

    def __init__(self, column: str, reason: str, *, hints: tuple[str, ...] = ()) -> None:
        super().__init__(f"column {column!r} cannot be kept: {reason}", hints=hints)
        self.column = column
        self.reason = reason


class CrsError(InvalidInputError):
    """A coordinate reference system is unknown or cannot be transformed to."""

    kind = ErrorKind.CRS


class GeometryError(InvalidInputError):
    """Geometry bytes cannot be read, or do not fit their column."""

    kind = ErrorKind.GEOMETRY
    what = "geometry"
    """The kind of value: `geometry` or `raster`."""
    row: int | None = None
    """The place of the value in its column; None where not one value is meant."""
    reason = ""
    """The fault of that value."""

    @classmethod
    def of_value(cls, row: int, reason: str, *, what: str = "geometry") -> "GeometryError":
        """Return the error for one value of a column."""
        error = cls(f"the {what} in row {row} cannot be used: {reason}")
        error.what, error.row, error.reason = what, row, reason
        return error


class SchemaViolationError(InvalidInputError):
    """Rows do not fit the schema, or a change of schema would lose data."""

    kind = ErrorKind.SCHEMA_VIOLATION


class KeyViolationError(InvalidInputError):
    """Primary keys are null or not unique."""

    kind = ErrorKind.KEY_VIOLATION


class PatchError(InvalidInputError):
    """A patch is not one, or does not apply."""

    kind = ErrorKind.PATCH


class NotFoundError(HavasuError, LookupError):
    """Something that was named does not exist."""

    kind = ErrorKind.NOT_FOUND


class RepositoryNotFoundError(NotFoundError):
    """There is no repository where one was looked for."""

    kind = ErrorKind.NO_REPOSITORY

    def __init__(self, path: str) -> None:
        there = os.path.exists(path)
        super().__init__(
            f"{path} is not in a havasu-vc repository",
            hints=(
                "`havasu-vc init` makes one" if there else "look at the path: nothing is there",
            ),
        )
        self.path = path


class RevisionNotFoundError(NotFoundError):
    """A revision does not resolve to a commit."""

    kind = ErrorKind.NO_REVISION

    def __init__(self, revision: str, *, hints: tuple[str, ...] = (), reason: str = "") -> None:
        super().__init__(
            f"there is no commit {revision!r} here: {reason}"
            if reason
            else f"no commit is named {revision!r}",
            hints=hints or ("`havasu-vc branch` lists the branches, `havasu-vc log` the commits",),
        )
        self.revision = revision
        self.reason = reason


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return a hint that names what somebody may have meant; none where nothing is near.

    >>> nearest("lot", ["lots", "roads"]), nearest("roads", ["nz/roads"]), nearest("x", ["lots"])
    (("did you mean 'lots'?",), ("did you mean 'nz/roads'?",), ())
    """
    import difflib

    names = list(known)[:_MOST_NAMES]
    inside = [each for each in names if each.rpartition("/")[2] == name.strip("/")]
    letters = {each.lower(): each for each in names}
    near = [letters[each] for each in difflib.get_close_matches(name.lower(), letters, 2)]
    found = list(dict.fromkeys([*inside[:2], *near]))[:2]
    return (f"did you mean {' or '.join(map(repr, found))}?",) if found else ()


_MOST_NAMES = 2000
"""Names that are compared, which takes a moment."""


class DatasetNotFoundError(NotFoundError):
    """A revision has no dataset of that path."""

    kind = ErrorKind.NO_DATASET

    def __init__(self, path: str, revision: str = "HEAD", known: Iterable[str] = ()) -> None:
        super().__init__(
            f"there is no dataset {path!r} at {revision}",
            hints=(*nearest(path, known), "`havasu-vc data ls` lists the datasets"),
        )
        self.path = path
        self.revision = revision


class SourceNotFoundError(NotFoundError):
    """A file, layer or location to import from does not exist."""

    kind = ErrorKind.NO_SOURCE


class RowNotFoundError(NotFoundError):
    """A dataset has no row with that key."""

    kind = ErrorKind.NO_ROW


class DataFileNotFoundError(NotFoundError):
    """A data file that a commit names is not on this machine."""

    kind = ErrorKind.NO_DATA_FILE

    def __init__(self, file: str, *, hints: tuple[str, ...] = ()) -> None:
        super().__init__(
            f"data file {file} is not in this repository's store",
            hints=hints or ("`havasu-vc data fetch` brings what a remote has",),
        )
        self.file = file


class NoBranchError(NotFoundError):
    """There is no such branch, or HEAD is on none."""

    kind = ErrorKind.NO_BRANCH


class NoChangesError(NotFoundError):
    """There is nothing to commit."""

    kind = ErrorKind.NO_CHANGES


class NoConflictError(NotFoundError):
    """No conflict that waits to be resolved has that name."""

    kind = ErrorKind.NO_CONFLICT


class NoUserError(NotFoundError):
    """Nobody's name and e-mail are configured for the commit."""

    kind = ErrorKind.NO_USER


class NoWorkingCopyError(NotFoundError):
    """There is no working copy where one is needed."""

    kind = ErrorKind.NO_WORKING_COPY


class NoSpatialFilterError(NotFoundError):
    """A spatial filter that was named, or that the settings name, is not there."""

    kind = ErrorKind.NO_SPATIAL_FILTER


class StateError(HavasuError):
    """The repository is in a state in which this cannot be done."""

    kind = ErrorKind.STATE


class UncommittedChangesError(StateError):
    """Edits that are not committed would be lost."""

    kind = ErrorKind.UNCOMMITTED_CHANGES


class SpatialFilterConflictError(StateError):
    """Rows that were inserted have keys of rows that the spatial filter hides."""

    kind = ErrorKind.SPATIAL_FILTER_CONFLICT


class WorkingCopyStateError(StateError):
    """The working copy has the rows of something that is not in the repository."""

    kind = ErrorKind.WORKING_COPY_STATE


class UnfinishedMergeError(StateError):
    """A dataset's documents do not agree: git was made to merge what it could not."""

    kind = ErrorKind.UNFINISHED_MERGE

    def __init__(self, path: str, revision: str, reason: str) -> None:
        super().__init__(
            f"{path} at {revision} is an unfinished merge: {reason}",
            hints=(
                "`havasu-vc repair` takes the rows from the commit's parents",
                "while git still waits, `havasu-vc merge --continue` does",
            ),
        )
        self.path = path
        self.revision = revision
        self.reason = reason


class ConflictError(StateError):
    """An operation stopped because both sides changed the same thing."""

    kind = ErrorKind.CONFLICT


class ConcurrentChangeError(StateError):
    """Another process moved the branch first. Nothing is lost; try again."""

    kind = ErrorKind.CONCURRENT_CHANGE


class LockedError(StateError):
    """Another process holds a lock that is needed."""

    kind = ErrorKind.LOCKED


class CorruptionError(HavasuError):
    """Stored bytes are not what they must be."""

    kind = ErrorKind.CORRUPTION


class CorruptDatasetError(CorruptionError):
    """A document of a dataset in git cannot be understood."""

    kind = ErrorKind.CORRUPT_DATASET

    def __init__(
        self,
        path: str,
        reason: str,
        hints: tuple[str, ...] = ("`havasu-vc fsck` lists all that is wrong",),
    ) -> None:
        super().__init__(f"{path}: {reason}", hints=hints)
        self.path = path
        self.reason = reason


class CorruptDataFileError(CorruptionError):
    """A data file's bytes are not those of its name, or cannot be read."""

    kind = ErrorKind.CORRUPT_DATA_FILE

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(
            f"data file {file} is damaged: {reason}",
            hints=("`havasu-vc data fetch --verify` brings it anew where a remote has it sound",),
        )
        self.file = file
        self.reason = reason


class UnsupportedError(HavasuError):
    """Something sound that this version cannot use."""

    kind = ErrorKind.UNSUPPORTED


class UnsupportedVersionError(UnsupportedError):
    """A format version that this version does not know."""

    kind = ErrorKind.UNSUPPORTED_VERSION


class UnsupportedRepositoryError(UnsupportedError):
    """A kind of git repository that cannot be opened."""

    kind = ErrorKind.UNSUPPORTED_REPOSITORY


class NotYetSupportedError(UnsupportedError):
    """Something that is planned and not there yet."""

    kind = ErrorKind.NOT_YET_SUPPORTED


class MachineError(HavasuError, OSError):
    """The machine lacks something or failed."""

    kind = ErrorKind.MACHINE


class MissingProgramError(MachineError):
    """A program or package that this needs is not installed."""

    kind = ErrorKind.MISSING_PROGRAM


class StorageError(MachineError):
    """A disk is full, a folder cannot be written, a file cannot be read."""

    kind = ErrorKind.STORAGE


class EngineError(MachineError):
    """A task failed for a reason that is not an error of the data."""

    kind = ErrorKind.ENGINE
