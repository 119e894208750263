"""Lines of `fsck` about a working copy where this program is `kart`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from havasu_vc.cli.errors import visible
from havasu_vc.errors import HavasuError

if TYPE_CHECKING:
    from havasu_vc.checkouts import LivingCopy
    from havasu_vc.library import Repo

__all__ = ["lines_of_fsck"]


def lines_of_fsck(repo: Repo, reset: Sequence[str]) -> Iterator[str]:
    """Yield Kart's lines before anything is compared, or after tables were made anew."""
    yield "Checking repository integrity..."
    living = repo.workspace.living
    if living is None:
        if repo.git.is_bare or not repo.git.config.get("kart.workingcopy.location"):
            yield "No working copy configured"
        return
    yield f"✔︎ Working copy: {visible(living.name)}"
    if reset:
        yield f"Resetting working copy for {visible(', '.join(reset))} ..."
    else:
        with suppress(HavasuError):  # which is told as a problem
            yield from _lines_of_tables(repo, living)


def _lines_of_tables(repo: Repo, living: LivingCopy) -> Iterator[str]:
    if living.tree == repo.head().tree:
        shown = f"<pygit2.Object{{tree:{living.tree}}}>"
        yield f"✔︎ Working Copy tree id matches repository: {shown}"
    edited, left_out = living.edited(), repo.workspace.left_out
    for path in repo.datasets():
        if path in left_out:
            continue
        keys = ", ".join(f'"{name}"' for name in repo.dataset(path).key.names)
        count = edited[path].counts.total if path in edited else 0
        yield ""
        yield f"Dataset: '{visible(path)}/' (table: '{visible(path.replace('/', '__'))}')"
        yield f"Primary key field for table: {visible(keys)}"
        yield f"{repo.count_rows(path)} features in {visible(path.replace('/', '__'))}"
        yield f"{count} rows marked as changed in working-copy"
        if path in edited:
            yield "! Working copy appears dirty according to the index"
        yield "Checking features..."
