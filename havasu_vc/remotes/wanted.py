"""Which data files some commits name: asked of git, which passes over what others have.

The pointers at `data/<2 hex>/<sha256>` are objects like any other, so git's own walk of
objects finds those that are new, in time that follows what the commits changed. git tells
of each object one path only, and a pointer may have stood elsewhere too, so every blob
is looked at whose name is a sha256. Of a path with a line end in it git tells what is
before that, the same for all that is in the folder: such blobs are looked at by size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.lfs import LONGEST_POINTER, parse_pointer
from havasu_vc.model.names import HAVASU_MARKER, TABLES
from havasu_vc.remotes.protocol import WantedFile
from havasu_vc.store.objects import read_object
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.revisions import commit_tree
from havasu_vc.store.trees import blobs_below, find_datasets

__all__ = ["commits_here", "files_at", "files_of_commits", "pointed_file", "where_new_begins"]

_NAMED = re.compile(rb"([0-9a-f]{40}) (?:[^\n]*/)?([0-9a-f]{64})")
_NO_REPLACEMENTS = {"GIT_NO_REPLACE_OBJECTS": "1"}
_INSIDE = f"{HAVASU_MARKER}/data/".encode()


def files_of_commits(
    repository: GitRepository,
    wanted: Sequence[str],
    known: Sequence[str] = (),
    *,
    allow_broken: bool = False,
) -> list[WantedFile]:
    """Return the data files that commits name and `known` ones and their history do not.

    Both are ids of commits, tags or trees; `known` ones that are not here are passed over. A
    pointer of a dataset that is none is an error, unless broken datasets are allowed.
    """
    if not wanted:
        return []
    lines = [*wanted, *(f"^{commit}" for commit in known)]
    answer = repository.git(
        "rev-list",
        "--objects",
        "--ignore-missing",
        "--stdin",
        stdin="".join(f"{line}\n" for line in lines).encode(),
        environment=_NO_REPLACEMENTS,
    )
    found: dict[str, WantedFile] = {}
    cut: dict[bytes, list[str]] = {}
    apart = [f"/{marker}".encode() for marker in TABLES]
    for line in answer.output.split(b"\n"):
        match = _NAMED.fullmatch(line)
        if match is None:
            identity, _, path = line.partition(b" ")
            if path and not any(part in path for part in apart):
                cut.setdefault(path, []).append(identity.decode())
            continue
        if (name := match[2].decode()) not in found:
            sure = _INSIDE in line and not allow_broken
            file = pointed_file(repository, match[1].decode(), name, sure=sure)
            if file is not None:
                found[name] = file
    # A folder of that name has three objects at least: a dataset, its internals, what is in it.
    suspects = [each for identities in cut.values() if len(identities) > 2 for each in identities]
    for other in _pointed(repository, suspects):
        found.setdefault(other.sha256, other)
    return sorted(found.values())


def files_at(repository: GitRepository, commits: Iterable[str], most: int) -> list[WantedFile]:
    """Return the data files that commits or tags name in their own trees; none beyond `most`.

    A dataset that is none has none: what is wrong with it is told elsewhere.
    """
    found: dict[str, WantedFile] = {}
    for commit in sorted(commits_here(repository, commits)):
        for folder in find_datasets(repository.objects, commit_tree(repository, commit)):
            for name, blob in blobs_below(repository.objects, folder.internals, "data"):
                file = pointed_file(repository, blob, name.rpartition("/")[2], sure=False)
                if file is not None:
                    found[file.sha256] = file
                if len(found) > most:
                    return []
    return sorted(found.values())


def _pointed(repository: GitRepository, objects: Sequence[str]) -> Iterator[WantedFile]:
    """Yield the files that those of some objects name which are pointers."""
    asked = "".join(f"{each}\n" for each in objects).encode()
    answer = repository.git("cat-file", "--batch-check", stdin=asked) if objects else None
    for line in () if answer is None else answer.text.split("\n"):
        words = line.split()
        if words[1:2] != ["blob"] or int(words[2]) > LONGEST_POINTER:
            continue
        with suppress(ValueError, CorruptDatasetError):
            pointer = parse_pointer(read_object(repository.objects, words[0], "blob"))
            yield WantedFile(pointer.oid, pointer.size)


def where_new_begins(
    repository: GitRepository, wanted: Sequence[str], known: Sequence[str]
) -> list[str]:
    """Return those of known commits and their history that the wanted ones come from.

    Whatever data the wanted ones name and these and their history do not is new.
    """
    if not wanted:
        return []
    lines = "".join(f"{line}\n" for line in [*wanted, *(f"^{each}" for each in known)])
    answer = repository.git(
        "rev-list",
        "--boundary",
        "--ignore-missing",
        "--stdin",
        stdin=lines.encode(),
        environment=_NO_REPLACEMENTS,
    )
    walked = answer.lines
    ends = {line[1:] for line in walked if line.startswith("-")}
    # What is among the known is no end of a walk, and may be all that is wanted.
    return sorted(ends | (commits_here(repository, wanted) - set(walked)))


def commits_here(repository: GitRepository, names: Iterable[str]) -> set[str]:
    """Return the commits that some ids name and that are here."""
    asked = "".join(f"{name}^{{commit}}\n" for name in names)
    answer = repository.git("cat-file", "--batch-check", stdin=asked.encode())
    lines = (line.split() for line in answer.lines)
    return {words[0] for words in lines if words[1:2] == ["commit"]}


def pointed_file(
    repository: GitRepository, blob: str, name: str, *, sure: bool = True
) -> WantedFile | None:
    """Return the file that a pointer names; None for a blob that is none, unless it must be."""
    try:
        pointer = parse_pointer(read_object(repository.objects, blob, "blob"))
        if pointer.oid != name:
            raise ValueError(f"it names {pointer.oid}")
    except (ValueError, CorruptDatasetError) as error:
        if not sure:
            return None
        raise CorruptDatasetError(f"the pointer to {name}", str(error)) from error
    return WantedFile(pointer.oid, pointer.size)
