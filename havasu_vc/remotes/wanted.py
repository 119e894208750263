"""Which data files some commits name: asked of git, which passes over what others have.

The pointers at `data/<2 hex>/<sha256>` are objects like any other, so git's own walk of
objects finds those that are new, in time that follows what the commits changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.lfs import parse_pointer
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.remotes.protocol import WantedFile
from havasu_vc.store.objects import read_object
from havasu_vc.store.repository import GitRepository

__all__ = ["files_of_commits"]

_POINTER = re.compile(
    rf"([0-9a-f]{{40}}) (?:.*/)?{re.escape(HAVASU_MARKER)}/data/[0-9a-f]{{2}}/([0-9a-f]{{64}})"
)


def files_of_commits(
    repository: GitRepository, wanted: Sequence[str], known: Sequence[str] = ()
) -> list[WantedFile]:
    """Return the data files that commits name and `known` ones and their history do not.

    Both are commits or refs; `known` ones that are not here are passed over.
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
    )
    found: dict[str, WantedFile] = {}
    for line in answer.output.decode("utf-8", "surrogateescape").splitlines():
        match = _POINTER.fullmatch(line)
        if match and match[2] not in found:
            found[match[2]] = _pointed(repository, match[1], match[2])
    return sorted(found.values())


def _pointed(repository: GitRepository, blob: str, name: str) -> WantedFile:
    try:
        pointer = parse_pointer(read_object(repository.objects, blob, "blob"))
    except ValueError as error:
        raise CorruptDatasetError(f"the pointer to {name}", str(error)) from error
    if pointer.oid != name:
        raise CorruptDatasetError(f"the pointer to {name}", f"it names {pointer.oid}")
    return WantedFile(pointer.oid, pointer.size)
