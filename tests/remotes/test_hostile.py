"""Clones of repositories that were made to do harm."""

import os
from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.errors import HavasuError
from havasu_vc.formats.lfs import Pointer, format_pointer
from havasu_vc.store.objects import read_object
from tests.remotes.sharing import clone, store
from tests.repo.points import write
from tests.support.git import run_git


def commit(repo: Path, entries: dict[str, tuple[str, bytes]]) -> None:
    """Commit files with these modes and contents on top of HEAD, past all checks."""
    lines = []
    for name, (mode, data) in entries.items():
        (repo / "blob").write_bytes(data)
        blob = run_git("hash-object", "-w", "blob", cwd=repo)
        lines.append(f"{mode} {blob}\t{name}")
    (repo / "blob").unlink()
    run_git("update-index", "--add", "--index-info", cwd=repo, stdin="\n".join(lines) + "\n")
    run_git("commit", "-qm", "Hostile", cwd=repo)


def test_hooks_and_settings_of_a_server_are_its_own(ours: Repo, tmp_path: Path) -> None:
    server = tmp_path / "server.git"
    (server / "hooks").mkdir(exist_ok=True)
    for name in ("post-checkout", "pre-push", "post-merge"):
        (server / "hooks" / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (server / "hooks" / name).chmod(0o755)
    run_git("config", "havasu.data.url", "file:///etc", cwd=server)

    theirs = clone(server, tmp_path / "theirs")
    theirs.fetch()

    assert not (tmp_path / "ran").exists()
    assert sorted(os.listdir(theirs.git.git_directory / "hooks")) == ["pre-push"]


@pytest.mark.parametrize("name", ["tables", "tables/points"])
def test_links_where_tables_go_are_not_followed(ours: Repo, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    commit(ours.path, {name: ("120000", str(outside).encode())})
    ours.push()
    theirs = clone(tmp_path / "server.git", tmp_path / "theirs")

    with pytest.raises(HavasuError):
        theirs.workspace.check_out()

    assert list(outside.iterdir()) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("size", [0, 10, 2**40, 2**62])
def test_pointers_that_lie_about_sizes(ours: Repo, tmp_path: Path, size: int) -> None:
    (file,) = store(ours).iter()
    pointer = f"points/.havasu-dataset/data/{file[:2]}/{file}"
    commit(ours.path, {pointer: ("100644", format_pointer(Pointer(file, size)))})
    run_git("push", "-q", "--no-verify", "origin", "main", cwd=ours.path)

    with pytest.raises(HavasuError) as caught:
        clone(tmp_path / "server.git", tmp_path / "theirs")

    assert "\n" not in caught.value.message


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("aa/" + "a" * 64, b"no pointer at all"),
        ("aa/" + "a" * 64, format_pointer(Pointer("b" * 64, 3))),
        ("aa/" + "a" * 64, b"version https://git-lfs.github.com/spec/v1\noid sha256:../../x\n"),
        ("aa/" + "a" * 64, b"x" * 5000),
    ],
)
def test_pointers_that_are_none(ours: Repo, tmp_path: Path, name: str, data: bytes) -> None:
    commit(ours.path, {f"points/.havasu-dataset/data/{name}": ("100644", data)})
    run_git("push", "-q", "--no-verify", "origin", "main", cwd=ours.path)

    with pytest.raises(HavasuError) as caught:
        clone(tmp_path / "server.git", tmp_path / "theirs")

    assert "pointer" in caught.value.message


@pytest.mark.thorough
def test_names_like_pointers_elsewhere_are_nobodys_business(ours: Repo, tmp_path: Path) -> None:
    commit(
        ours.path,
        {
            "docs/" + "c" * 64: ("100644", b"just a file"),
            "docs/" + "d" * 64 + "/x": ("100644", b"in a folder"),
        },
    )
    ours.push()
    theirs = clone(tmp_path / "server.git", tmp_path / "theirs")
    assert (theirs.path / "docs" / ("c" * 64)).read_text() == "just a file"


def test_a_repository_that_calls_itself_ours_in_git(ours: Repo, tmp_path: Path) -> None:
    """git refuses `.git` in trees; such a push or clone ends in one clear line."""
    blob = run_git("hash-object", "-w", "--stdin", cwd=ours.path, stdin="[core]\n")
    raw = b"100644 config\0" + bytes.fromhex(blob)
    (tmp_path / "tree").write_bytes(raw)
    inner = run_git(
        "hash-object", "-w", "-t", "tree", "--literally", tmp_path / "tree", cwd=ours.path
    )
    (tmp_path / "tree").write_bytes(b"40000 .git\0" + bytes.fromhex(inner))
    tree = run_git(
        "hash-object", "-w", "-t", "tree", "--literally", tmp_path / "tree", cwd=ours.path
    )
    bad = run_git("commit-tree", "-m", "Bad", tree, cwd=ours.path)
    run_git("push", "-q", "--no-verify", "origin", f"+{bad}:refs/heads/main", cwd=ours.path)

    with pytest.raises(HavasuError) as caught:
        clone(tmp_path / "server.git", tmp_path / "theirs")

    assert "\n" not in caught.value.message
    assert "origin" in (tmp_path / "theirs" / ".git" / "config").read_text()


DATASET = "points/.havasu-dataset"


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["dataset.json", "columns/1.json"])
@pytest.mark.parametrize("mode", ["120000", "160000"])
def test_links_and_submodules_for_documents(
    ours: Repo, tmp_path: Path, name: str, mode: str
) -> None:
    """A document that is a link is its text, whatever lies where that leads."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"{}")
    if mode == "160000":
        head = run_git("rev-parse", "HEAD", cwd=ours.path)
        index = f"{mode} {head}\t{DATASET}/{name}\n"
        run_git("update-index", "--add", "--index-info", cwd=ours.path, stdin=index)
        run_git("commit", "-qm", "Hostile", cwd=ours.path)
    else:
        commit(ours.path, {f"{DATASET}/{name}": (mode, str(secret).encode())})
    run_git("push", "-q", "--no-verify", "origin", "main", cwd=ours.path)

    with pytest.raises(HavasuError) as caught:
        theirs = clone(tmp_path / "server.git", tmp_path / "theirs")
        theirs.table("points").to_arrow()

    assert "\n" not in caught.value.message and "{}" not in caught.value.message
    assert not (tmp_path / "theirs" / DATASET).exists()


@pytest.mark.thorough
def test_attributes_and_settings_in_a_tree_run_nothing(ours: Repo, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    shell = f"touch {ran}"
    commit(
        ours.path,
        {
            ".gitattributes": ("100644", b"* filter=evil diff=evil merge=evil\n"),
            ".gitconfig": ("100644", f"[core]\n\tfsmonitor = {shell}\n".encode()),
            ".lfsconfig": ("100644", b"[lfs]\n\turl = file:///etc\n"),
            ".havasu/config": ("100644", b"[havasu]\n\tdata.url = file:///etc\n"),
            "hooks/pre-push": ("100755", f"#!/bin/sh\n{shell}\n".encode()),
            "points/readme.txt": ("100644", b"words"),
        },
    )
    ours.push()

    theirs = clone(tmp_path / "server.git", tmp_path / "theirs")
    theirs.workspace.check_out()
    write(theirs, {1: ("mine", 1)})
    list(theirs.diff("HEAD^...HEAD"))
    theirs.push()

    assert not ran.exists()
    assert theirs.config.get("havasu.data.url") is None
    assert list(theirs.fsck(full=True)) == []


@pytest.mark.parametrize("name", ["dataset.json", "columns/1.json"])
@pytest.mark.few(1)
def test_documents_without_end(ours: Repo, tmp_path: Path, name: str) -> None:
    huge = b"[" * (24 << 20)
    commit(ours.path, {f"{DATASET}/{name}": ("100644", huge)})
    run_git("push", "-q", "--no-verify", "origin", "main", cwd=ours.path)

    with pytest.raises(HavasuError) as caught:
        theirs = clone(tmp_path / "server.git", tmp_path / "theirs")
        theirs.table("points").to_arrow()

    assert len(caught.value.message) < 1000


def blob_of(repo: Repo, path: str) -> str:
    return run_git("rev-parse", f"HEAD:{path}", cwd=repo.path).strip()


def test_entries_that_name_files_by_paths(ours: Repo, tmp_path: Path) -> None:
    (file,) = store(ours).iter()
    tree = run_git("ls-tree", "-r", "--name-only", "HEAD", f"{DATASET}/files", cwd=ours.path)
    for number, bad in enumerate(("..", "x" * 64, file.upper(), f"{file}x")):
        entry = read_object(ours.git.objects, blob_of(ours, tree.splitlines()[0]), "blob")
        commit(ours.path, {f"{DATASET}/files/{number:02}/{bad}.json": ("100644", entry)})
    run_git("push", "-q", "--no-verify", "origin", "main", cwd=ours.path)

    with pytest.raises(HavasuError) as caught:
        theirs = clone(tmp_path / "server.git", tmp_path / "theirs")
        theirs.table("points").to_arrow()

    assert "\n" not in caught.value.message


def test_a_remote_helper_in_a_url_is_not_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for url in (f"ext::sh -c touch% {ran}", "--upload-pack=touch " + str(ran), "-u./x"):
        with pytest.raises(HavasuError):
            clone(url, tmp_path / "theirs")
        assert not ran.exists()


@pytest.mark.parametrize("work", ["fetch", "push"])
def test_a_remote_is_never_an_option(ours: Repo, tmp_path: Path, work: str) -> None:
    for option in ("--upload-pack", "--receive-pack", "--exec"):
        with pytest.raises(HavasuError):
            getattr(ours, work)(f"{option}=touch {tmp_path / 'ran'};")
    for option in ("--upload-pack", "--receive-pack", "--exec"):
        with pytest.raises(HavasuError):
            getattr(ours, work)("origin", [f"{option}=touch {tmp_path / 'ran'};"])
    assert not (tmp_path / "ran").exists()
