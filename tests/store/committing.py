"""Commits made through the store, as a commit of datasets makes them."""

from collections.abc import Mapping, Sequence

from havasu_vc.store.commits import format_commit, read_commit
from havasu_vc.store.index import in_step
from havasu_vc.store.objects import Signature
from havasu_vc.store.preparation import attributes_edits
from havasu_vc.store.refs import move_head, read_head
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.trees import Change, edit_tree

ANN = Signature("Ann", "ann@example.org", 1_700_000_000, 780)
INTERNALS = "roads/.havasu-dataset"


def write_commit(
    repository: GitRepository,
    changes: Mapping[str, Change],
    parents: Sequence[str] = (),
    *,
    message: str = "edit",
    time: int = 1_700_000_000,
) -> str:
    """Store a commit that changes its first parent's tree; no ref names it."""
    base = read_commit(repository.objects, parents[0]).tree if parents else None
    who = Signature("Ann", "ann@example.org", time, 780)
    with repository.writer() as writer:
        tree = edit_tree(writer, base, changes)
        data = format_commit(tree, tuple(parents), author=who, committer=who, message=message)
        commit = writer.write("commit", data)
        writer.flush()
    return commit


def commit_dataset(
    repository: GitRepository,
    files: Mapping[str, bytes | None],
    *,
    internals: str = INTERNALS,
    message: str = "edit",
) -> str:
    """Commit changes of one dataset's internals upon HEAD, with the index in step."""
    head = read_head(repository)
    parents = [] if head.commit is None else [head.commit]
    base = read_commit(repository.objects, head.commit).tree if head.commit else None
    changes: dict[str, Change] = {f"{internals}/{path}": data for path, data in files.items()}
    attributes = attributes_edits(repository.objects, base, [internals])
    changes.update(attributes)
    commit = write_commit(repository, changes, parents, message=message)
    with in_step(repository, [internals], files=list(attributes)):
        move_head(repository, head, commit, f"commit: {message}")
    return commit


def entries(count: int, *, start: int = 0) -> dict[str, bytes]:
    """Return so many small documents in 256 folders."""
    return {
        f"files/{number % 256:02x}/{number:08x}.json": b'{"number": %d}\n' % number
        for number in range(start, start + count)
    }
