"""Which version of Kart's tables a repository holds, told without opening any of them."""

from __future__ import annotations

from havasu_vc.errors import UnsupportedVersionError
from havasu_vc.model.names import KART_VERSION, OLD_VERSION
from havasu_vc.store.commits import read_commit
from havasu_vc.store.refs import read_head
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.trees import TREE, read_blob, read_entries

__all__ = ["kart_version", "oldest_form"]

_SETTINGS = ("kart.repostructure.version", "sno.repository.version")
_DEPTH = 3


def kart_version(git: GitRepository) -> int | None:
    """Return 0 to 3, as the commit at HEAD says, or the settings; None where it is not Kart's."""
    head = read_head(git).commit
    if head is not None:
        tree = read_commit(git.objects, head).tree
        for name in (KART_VERSION, OLD_VERSION):
            if (data := read_blob(git.objects, tree, name)) is not None:
                return _number(data.decode("utf-8", "replace"))
        old = _oldest(git, tree, _DEPTH)
        if old is not None:
            return old
    for name in _SETTINGS:
        if (text := git.config.get(name)) is not None:
            return _number(text)
    return 3 if git.is_kart else None


def oldest_form(number: int) -> UnsupportedVersionError:
    """Return the error of a repository in the form V0 or V1."""
    return UnsupportedVersionError(
        f"the repository is in Kart's form V{number}, and forms from V2 are read here",
        hints=("`kart upgrade` of Kart itself brings it to V3",),
    )


def _oldest(git: GitRepository, tree: str, depth: int) -> int | None:
    """Tell the two forms that no file names by their folders: `.sno-table`, or none around rows."""
    entries = read_entries(git.objects, tree)
    folders = {name: identity.hex() for mode, name, identity in entries if mode == TREE}
    if b".sno-table" in folders:
        return 1
    if {b"meta", b"features"} <= folders.keys():
        meta = read_entries(git.objects, folders[b"meta"])
        if any(name == b"version" for _, name, _ in meta):
            return 0
    if depth > 0:
        for name in sorted(folders):
            found = _oldest(git, folders[name], depth - 1)
            if found is not None:
                return found
    return None


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdecimal() else None
