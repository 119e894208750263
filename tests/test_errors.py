"""The error tree is what callers rely on: its shape, its kinds, and that errors travel."""

import inspect
import pickle
import re
from typing import Any

import pytest

from havasu_vc import errors
from havasu_vc.errors import ErrorKind, HavasuError, InvalidArgumentError

TREE = """\
HavasuError
  InvalidInputError (ValueError)
    InvalidArgumentError
    InvalidNameError
    InvalidFileError
    UnsupportedTypeError
    CrsError
    GeometryError
    SchemaViolationError
    KeyViolationError
    PatchError
  NotFoundError (LookupError)
    RepositoryNotFoundError
    RevisionNotFoundError
    DatasetNotFoundError
    SourceNotFoundError
    RowNotFoundError
    DataFileNotFoundError
    NoBranchError
    NoChangesError
    NoConflictError
    NoUserError
    NoWorkingCopyError
    NoSpatialFilterError
  StateError
    UncommittedChangesError
    SpatialFilterConflictError
    WorkingCopyStateError
    UnfinishedMergeError
    ConflictError
    ConcurrentChangeError
    LockedError
  CorruptionError
    CorruptDatasetError
    CorruptDataFileError
  UnsupportedError
    UnsupportedVersionError
    UnsupportedRepositoryError
    NotYetSupportedError
  MachineError (OSError)
    MissingProgramError
    StorageError
    EngineError
"""

# Released kinds in their order: the list only ever grows at its end.
KINDS = """
    error invalid-argument invalid-name invalid-file unsupported-type crs geometry
    schema-violation key-violation patch not-found no-repository no-revision no-dataset
    no-source no-row no-data-file no-branch no-changes no-user state uncommitted-changes
    unfinished-merge conflict concurrent-change locked corruption corrupt-dataset
    corrupt-data-file unsupported unsupported-version unsupported-repository
    not-yet-supported machine missing-program storage engine no-conflict
""".split()


def descend(cls: type[HavasuError], depth: int = 0) -> list[tuple[int, type[HavasuError]]]:
    """Return `cls` and all below it with their depths, in the order of their definition."""
    below = [row for child in cls.__subclasses__() for row in descend(child, depth + 1)]
    return [(depth, cls), *below]


CLASSES = [cls for _, cls in descend(HavasuError)]


def example(cls: type[HavasuError]) -> HavasuError:
    """Return an error of `cls`, with a text for each of its arguments."""
    parameters = inspect.signature(cls).parameters
    given: dict[str, Any] = {name: f"the {name}" for name in parameters if name != "hints"}
    return cls(**given, hints=("try again",)) if "hints" in parameters else cls(**given)


def test_the_tree_has_its_shape() -> None:
    lines = []
    for depth, cls in descend(HavasuError):
        builtins = [base.__name__ for base in cls.__bases__ if base.__module__ == "builtins"]
        also = f" ({', '.join(builtins)})" if depth and builtins else ""
        lines.append(f"{'  ' * depth}{cls.__name__}{also}\n")

    assert "".join(lines) == TREE


def test_the_docstring_draws_the_tree() -> None:
    drawn = re.findall(r"\w+Error(?: \(\w+Error\))?", errors.__doc__.split("HavasuError", 1)[1])

    assert ["HavasuError", *drawn] == [line.strip() for line in TREE.splitlines()]


def test_kinds_are_only_ever_added_at_the_end() -> None:
    assert [kind.value for kind in ErrorKind][: len(KINDS)] == KINDS


def test_each_kind_belongs_to_one_class() -> None:
    owners = [vars(cls)["kind"] for cls in CLASSES if "kind" in vars(cls)]

    assert sorted(owners) == sorted(ErrorKind)


def test_all_classes_but_one_have_a_kind_of_their_own() -> None:
    # An invalid argument is what an invalid input is called unless more is known.
    assert [cls for cls in CLASSES if "kind" not in vars(cls)] == [InvalidArgumentError]


def test_every_class_is_exported() -> None:
    assert {cls.__name__ for cls in CLASSES} | {"ErrorKind"} == set(errors.__all__)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_survives_the_way_to_another_process(cls: type[HavasuError]) -> None:
    error = example(cls)
    error.note = "set later"  # type: ignore[attr-defined]

    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is cls
    assert str(copy) == str(error) == error.message
    assert vars(copy) == vars(error)
    assert copy.args == error.args


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_message_is_one_line_that_names_what_was_given(cls: type[HavasuError]) -> None:
    error = example(cls)
    own = [name for name in vars(error) if name not in {"message", "hints"}]

    assert "\n" not in str(error)
    assert all(str(vars(error)[name]) in str(error) for name in own)
    assert error.hints
