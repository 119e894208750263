"""The file that an import reads: one that is written to meanwhile would come in by halves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from havasu_vc.errors import InvalidFileError

__all__ = ["Stamps", "require_unchanged", "stamps_of"]

Stamps = Mapping[Path, tuple[int, int, int] | None]
"""Files, each with what changes where it is written to; None where it is not there."""
_BESIDE = (".shx", ".dbf", ".cpg", ".prj")


def stamps_of(place: str) -> Stamps:
    """Return the stamps of the file at a place, and of those that belong to it."""
    path = Path(place)
    beside = _BESIDE if path.suffix.lower() == ".shp" else ()
    found = {each: _stamp(each) for each in (path, *(path.with_suffix(end) for end in beside))}
    return found if found[path] is not None else {}


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        if not path.is_file():
            return None
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def require_unchanged(stamps: Stamps) -> None:
    """Raise `InvalidFileError` for a file that is not as it was."""
    for path, stamp in stamps.items():
        if _stamp(path) != stamp:
            raise InvalidFileError(
                str(path),
                "it was changed while it was read",
                hints=("import it again when nobody writes to it",),
            )
