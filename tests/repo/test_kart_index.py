"""Kart's index of a merge: what git reads and writes of it, read and written without git."""

import random
import subprocess
from pathlib import Path

import pytest

from havasu_vc.merging.kart_index import FileEntry, add_entries, read_entries_of_conflicts

NOTHING = "0" * 40


class Index:
    """An index of git's, and git beside it."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.folder, self.settings = folder, settings
        self.path = folder / ".git" / "MERGED_INDEX"
        subprocess.run(["git", "init", "-q", str(folder)], check=True)

    def git(self, *words: str, stdin: bytes = b"") -> bytes:
        named = {"GIT_INDEX_FILE": str(self.path), "GIT_ALLOW_NULL_SHA1": "1"}
        settings = [each for setting in self.settings for each in ("-c", setting)]
        command = ["env", *(f"{k}={v}" for k, v in named.items()), "git", *settings, *words]
        return subprocess.run(
            command, cwd=self.folder, input=stdin, check=True, capture_output=True
        ).stdout

    def put(self, entries: list[FileEntry]) -> None:
        lines = "".join(f"{mode} {blob}\t{path}\0" for mode, blob, path in entries)
        self.git("update-index", "-z", "--index-info", stdin=lines.encode())

    def listed(self) -> list[FileEntry]:
        found = []
        for line in filter(None, self.git("ls-files", "-s", "-z").decode().split("\0")):
            head, _, path = line.partition("\t")
            mode, blob, _ = head.split()
            found.append(FileEntry(mode, blob, path))
        return found


def drawn(source: random.Random, folders: list[str], count: int) -> list[FileEntry]:
    names = ["a", "é", "table/.table-dataset/feature/A/kQE=", "n" * 4200, "-", " x"]
    return [
        FileEntry(
            source.choice(["100644", "100755"]),
            f"{source.randrange(1, 1 << 160):040x}",
            f"{source.choice(folders)}{source.choice(names)}{source.randrange(50)}",
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_git_finds_what_was_put_in(seed: int, tmp_path: Path) -> None:
    source = random.Random(seed)
    ends = "index.recordEndOfIndexEntries=true"
    ours, gits = (Index(tmp_path / name, ends) for name in ("ours", "gits"))
    begun = drawn(source, ["", "t/", ".kart.x/", "#/", ".conflicts/1/ours/"], 60)
    for each in (ours, gits):
        each.put(begun)
    for _ in range(3):
        more = drawn(source, [".conflicts/0/theirs/", ".resolves/12/0/"], source.randrange(9))
        more.append(FileEntry("100644", NOTHING, f".resolves/{source.randrange(20)}/resolved"))
        assert add_entries(ours.path, more)
        gits.put(more)
        assert ours.listed() == gits.listed()
        wanted = [
            each for each in gits.listed() if each.path.startswith((".conflicts/", ".resolves/"))
        ]
        assert read_entries_of_conflicts(ours.path) == wanted
        assert read_entries_of_conflicts(gits.path) == wanted
    # What git made of trees before is forgotten, and the sum is right.
    gone = "".join(f"0 {NOTHING}\t{each.path}\0" for each in ours.listed() if each.path[0] == ".")
    for each in (ours, gits):
        each.git("update-index", "-z", "--index-info", stdin=gone.encode())
    written = [each.git("write-tree", "--missing-ok") for each in (ours, gits)]
    assert written[0] == written[1]


def test_what_cannot_be_read_so_is_left_to_git(tmp_path: Path) -> None:
    more = [FileEntry("100644", "1" * 40, ".resolves/0/0/a")]
    fourth = Index(tmp_path / "fourth", "index.version=4", "index.recordEndOfIndexEntries=true")
    fourth.put(drawn(random.Random(1), ["", ".conflicts/"], 20))
    assert read_entries_of_conflicts(fourth.path) is None
    before = fourth.path.read_bytes()
    assert not add_entries(fourth.path, more)
    assert fourth.path.read_bytes() == before

    plain = Index(tmp_path / "plain")
    plain.put(drawn(random.Random(1), ["", ".conflicts/"], 20))
    assert not add_entries(plain.path, more)  # it does not say where its entries end

    damaged = Index(tmp_path / "damaged", "index.recordEndOfIndexEntries=true")
    damaged.put(drawn(random.Random(1), ["t/"], 20))
    data = bytearray(damaged.path.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.path.write_bytes(data)
    assert not add_entries(damaged.path, more)
    damaged.path.write_bytes(data[:40])
    with pytest.raises(ValueError, match="cut short"):
        read_entries_of_conflicts(damaged.path)
