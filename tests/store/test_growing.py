"""The pack that commits add to: git reads it, it stays small, and nobody loses an object."""

from __future__ import annotations

import random
import subprocess
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.store import growing, objects, packs
from havasu_vc.store.objects import LOOSE_LIMIT, ObjectWriter, tree_delta
from havasu_vc.store.preparation import init_repository
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.trees import edit_tree
from tests.store.committing import write_commit

Git = Callable[..., str]
COUNT = LOOSE_LIMIT + 20


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return init_repository(tmp_path / "repo", bare=True)


def pack_files(repository: GitRepository, suffix: str = "pack") -> list[Path]:
    return sorted((repository.common_directory / "objects/pack").glob(f"*.{suffix}"))


def store(repository: GitRepository, texts: list[bytes]) -> list[str]:
    with repository.writer() as writer:
        ids = [writer.write("blob", text) for text in texts]
        writer.flush()
    return ids


def texts(start: int, count: int = COUNT) -> list[bytes]:
    return [b"text %d" % number for number in range(start, start + count)]


class Folders:
    """Folders of many files, changed a little by each commit."""

    def __init__(self, repository: GitRepository) -> None:
        self.repository = repository
        self.random = random.Random(3)
        self.tree: str | None = None
        self.trees: list[tuple[str, dict[str, bytes]]] = []
        self.files: dict[str, bytes] = {}

    def change(self, count: int) -> None:
        data = b"content %d" % len(self.trees)
        changed: dict[str, bytes | None] = {
            f"{self.random.randrange(32):02x}/{self.random.randrange(1 << 24):06x}": data
            + b" %d" % (n % 8)
            for n in range(count)
        }
        for path in self.random.sample(sorted(self.files), min(count // 4, len(self.files))):
            changed[path] = self.random.choice([None, data])
        self.files = {p: d for p, d in (self.files | changed).items() if d is not None}
        with self.repository.writer() as writer:
            self.tree = edit_tree(writer, self.tree, changed)
            writer.flush()
        self.trees.append((self.tree, self.files))


@pytest.mark.thorough
def test_commits_share_a_pack_in_which_trees_are_what_they_differ_in(
    repository: GitRepository, git: Git
) -> None:
    folders = Folders(repository)
    folders.change(4000)
    (before,) = pack_files(repository)
    whole = before.stat().st_size
    for _ in range(30):
        folders.change(40)

    (pack,) = pack_files(repository)
    assert pack != before
    assert [path.stem for path in pack_files(repository, "idx")] == [pack.stem]
    # Each commit changes nearly all folders, and adds less than a third of what they are whole.
    assert pack.stat().st_size - whole < 30 * whole / 3
    for tree, files in folders.trees:
        listed = git("ls-tree", "-r", tree, cwd=repository.path).splitlines()
        assert {line.split("\t")[1] for line in listed} == set(files)
    chains = [
        int(line.split()[5])
        for line in git("verify-pack", "-v", pack, cwd=repository.path).splitlines()
        if len(line.split()) == 7
    ]
    assert len(chains) > 100
    assert max(chains) <= packs.DEEPEST + packs.DEEPER
    assert git("fsck", "--strict", "--no-dangling", cwd=repository.path) == ""
    again = repository.path / "again.idx"
    git("index-pack", "-o", again, pack, cwd=repository.path)
    assert again.read_bytes() == pack.with_suffix(".idx").read_bytes()


def test_what_the_pack_has_is_not_added_again(repository: GitRepository) -> None:
    store(repository, texts(0))
    before = pack_files(repository)
    store(repository, texts(0))
    assert pack_files(repository) == before


@pytest.mark.parametrize("mark", ["keep", "promisor", "bitmap"])
def test_a_pack_that_git_marked_is_left_alone(repository: GitRepository, mark: str) -> None:
    store(repository, texts(0))
    (marked,) = pack_files(repository)
    marked.with_suffix(f".{mark}").touch()

    store(repository, texts(1000))

    assert marked in pack_files(repository)
    assert len(pack_files(repository)) == 2


def test_a_pack_in_an_index_of_several_is_left_alone(repository: GitRepository, git: Git) -> None:
    store(repository, texts(0))
    (named,) = pack_files(repository)
    git("multi-pack-index", "write", cwd=repository.path)

    store(repository, texts(1000))

    assert named in pack_files(repository)
    git("multi-pack-index", "verify", cwd=repository.path)


@pytest.mark.parametrize(("limit", "most"), [("WORTH", 10), ("MOST", 1000)])
def test_a_large_pack_is_left_and_a_new_one_begun(
    repository: GitRepository, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(growing, "SMALL", 1000)
    monkeypatch.setattr(growing, limit, most)
    for start in range(0, 500, 100):
        store(repository, texts(start))
    assert 1 < len(pack_files(repository)) < 5


@pytest.mark.parametrize("harm", ["pack", "idx", "note", "gone"])
def test_damage_is_not_carried_on(repository: GitRepository, harm: str) -> None:
    store(repository, texts(0))
    (pack,) = pack_files(repository)
    note = repository.data_folder / "growing"
    if harm == "note":
        note.write_text("pack-../../../etc/passwd\n")
    elif harm == "gone":
        pack.unlink()
    else:
        path = pack.with_suffix(f".{harm}")
        path.chmod(0o644)
        data = bytearray(path.read_bytes())
        data[len(data) // 2 if harm == "pack" else -30] ^= 1
        path.write_bytes(data)
    there = set(pack.parent.iterdir())

    ids = store(repository, texts(1000))

    assert there < set(pack.parent.iterdir())
    assert repository.objects.read(ids[0]) == ("blob", b"text 1000")


def test_two_writers_at_once_lose_nothing(repository: GitRepository, git: Git) -> None:
    store(repository, texts(0))
    with ObjectWriter(repository.objects) as one, ObjectWriter(repository.objects) as other:
        ids = [one.write("blob", text) for text in texts(1000)]
        ids += [other.write("blob", text) for text in texts(2000)]
        one.flush()
        other.flush()
    ids += store(repository, texts(3000))

    opened = GitRepository.open(repository.path)
    for start in (0, 1000, 2000, 3000):
        for text in texts(start):
            assert opened.objects.has(objects.object_id("blob", text))
    assert git("fsck", "--strict", "--no-dangling", cwd=repository.path) == ""


def test_who_reads_meanwhile_goes_on(repository: GitRepository) -> None:
    ids = store(repository, texts(0))
    reading = GitRepository.open(repository.path)
    assert reading.objects.read(ids[0]) == ("blob", b"text 0")
    command = ["git", "-C", str(repository.path), "cat-file", "--batch"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as batch:
        assert batch.stdin is not None and batch.stdout is not None
        for start in range(1000, 5000, 1000):
            more = store(repository, texts(start))
            for identity, number in ((ids[7], 7), (more[0], start)):
                text = b"text %d" % number
                assert reading.objects.read(identity) == ("blob", text)
                batch.stdin.write(identity.encode() + b"\n")
                batch.stdin.flush()
                assert batch.stdout.readline().split()[1:] == [b"blob", b"%d" % len(text)]
                assert batch.stdout.readline() == text + b"\n"
        batch.stdin.close()
    assert batch.returncode == 0


def test_git_gc_takes_all_in(repository: GitRepository, git: Git) -> None:
    changes = [{f"{n % 7}/{n}": b"%d" % (n + k) for n in range(100)} for k in range(3)]
    head: str | None = None
    for each in changes:
        head = write_commit(repository, each, () if head is None else (head,))
        git("update-ref", "refs/heads/main", head, cwd=repository.path)
    git("gc", "--quiet", "--prune=now", cwd=repository.path)
    assert head is not None
    write_commit(repository, changes[0], (head,))

    assert len(pack_files(repository)) == 2
    assert git("fsck", "--strict", "--no-dangling", cwd=repository.path) == ""


def applied(base: bytes, delta: bytes) -> bytes:
    """Return what a delta makes of its base, as gitformat-pack has it."""
    at, sizes = 0, []
    for _ in range(2):
        size = shift = 0
        while True:
            byte, at = delta[at], at + 1
            size |= (byte & 127) << shift
            shift += 7
            if not byte & 128:
                break
        sizes.append(size)
    made = b""
    while at < len(delta):
        code, at = delta[at], at + 1
        assert code, "reserved"
        if code < 128:
            made, at = made + delta[at : at + code], at + code
            continue
        numbers = [0] * 7
        for bit in range(7):
            if code >> bit & 1:
                numbers[bit], at = delta[at], at + 1
        offset = int.from_bytes(bytes(numbers[:4]), "little")
        size = int.from_bytes(bytes(numbers[4:]), "little") or 0x10000
        assert offset + size <= len(base)
        made += base[offset : offset + size]
    assert sizes == [len(base), len(made)]
    return made


PIECES = st.lists(
    st.one_of(st.binary(max_size=300), st.integers(0, 3).map(lambda n: bytes([n]) * 400)),
    max_size=12,
)


@given(base=PIECES, order=st.lists(st.integers(0, 30), max_size=14), more=st.binary(max_size=200))
def test_a_delta_makes_the_one_of_the_other(
    base: list[bytes], order: list[int], more: bytes
) -> None:
    target = b"".join([base[n] if n < len(base) else more[: n * 6] for n in order])
    joined = b"".join(base)
    delta = tree_delta(joined, target, 1 << 20)
    assert delta is not None
    assert applied(joined, delta) == target


@pytest.mark.parametrize("size", [70_000, 1 << 17])
def test_long_pieces_are_copied_in_parts(size: int) -> None:
    base = random.Random(1).randbytes(size)
    target = base[:100] + b"more" + base[100:]
    delta = tree_delta(base, target, 200)
    assert delta is not None
    assert applied(base, delta) == target


def test_what_differs_too_much_is_no_delta() -> None:
    one, other = (random.Random(seed).randbytes(5000) for seed in (1, 2))
    assert tree_delta(one, other, 1000) is None


def test_memory_holds_no_more_of_a_large_pack_than_a_block(repository: GitRepository) -> None:
    drawn = random.Random(5)
    store(repository, [drawn.randbytes(100_000) for _ in range(COUNT)])
    (before,) = pack_files(repository)
    assert before.stat().st_size > 3 << 20
    few = [drawn.randbytes(100) for _ in range(COUNT * 9)]  # for which so much is copied

    tracemalloc.start()
    store(repository, few)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    (after,) = pack_files(repository)
    assert after.stat().st_size > 3 << 20
    assert most < 1 << 20
