"""`.gitattributes`, as git reads it: what a host folds away, and what the user said there."""

from pathlib import Path

import pytest

from tests.cli.conftest import invoke, succeed
from tests.remotes.sharing import bare
from tests.repo import points
from tests.support.examples import some
from tests.support.git import run_git

ASKED = ("linguist-generated", "text", "diff")
OWN = "*.csv text eol=lf\n*.havasu-dataset/** linguist-vendored"
"""Without a newline at its end."""


def attributes(place: Path, path: str, *options: str) -> dict[str, str]:
    """Return what git says of a path."""
    answer = run_git("check-attr", *options, *ASKED, "--", path, cwd=place)
    return {line.split(": ")[1]: line.split(": ")[2] for line in answer.splitlines()}


def check(place: Path, *options: str) -> None:
    """Check what is folded away, and what is shown."""
    inside = "points/.havasu-dataset"
    for folder in ("edits", "files", "data"):
        found = attributes(place, f"{inside}/{folder}/ab/cdef", *options)
        assert found == {"linguist-generated": "set", "text": "unset", "diff": "havasu"}, folder
        nested = attributes(place, f"a/b/{inside}/{folder}/x", *options)
        assert nested["linguist-generated"] == "set"
    for shown in ("dataset.json", "meta/title", "columns/1.json"):
        assert attributes(place, f"{inside}/{shown}", *options)["linguist-generated"] == (
            "unspecified"
        )
    for other in ("README.md", "edits/notes.txt", "points/files/x"):
        assert set(attributes(place, other, *options).values()) == {"unspecified"}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A bare repository with a dataset, and beside it attributes that a person wrote."""
    place = tmp_path / "work"
    run_git("init", "-q", place, cwd=tmp_path)
    (place / ".gitattributes").write_text(OWN)
    run_git("add", ".", cwd=place)
    run_git("commit", "-q", "-m", "Mine", cwd=place)
    succeed(invoke(["init", place]))
    (tmp_path / "points.csv").write_text("id,name\n1,one\n2,two\n")
    succeed(invoke(["-C", place, "import", tmp_path / "points.csv", "--primary-key", "id"]))
    server = bare(tmp_path / "server.git")
    run_git("remote", "add", "origin", server, cwd=place)
    succeed(invoke(["-C", place, "push", "origin", "main"]))
    return server


def test_a_user_keeps_what_was_said(shared: Path, tmp_path: Path) -> None:
    text = run_git("show", "main:.gitattributes", cwd=shared)
    assert text.startswith(OWN + "\n")
    check(tmp_path / "work")
    assert attributes(tmp_path / "work", "x.csv")["text"] == "set"
    before = run_git("rev-parse", "main:.gitattributes", cwd=shared)
    succeed(invoke(["-C", tmp_path / "work", "meta", "set", "points", "title=Points"]))
    assert run_git("rev-parse", "HEAD:.gitattributes", cwd=tmp_path / "work") == before


@pytest.mark.thorough
def test_in_every_kind_of_clone(shared: Path, tmp_path: Path) -> None:
    run_git("clone", "-q", shared, tmp_path / "plain", cwd=tmp_path)
    check(tmp_path / "plain")
    succeed(invoke(["-C", tmp_path / "plain", "status"]))
    check(tmp_path / "plain")
    succeed(invoke(["clone", shared, tmp_path / "ours"]))
    check(tmp_path / "ours")
    run_git("clone", "-q", "--depth=1", f"file://{shared}", tmp_path / "shallow", cwd=tmp_path)
    check(tmp_path / "shallow")
    run_git("read-tree", "main", cwd=shared)
    check(shared, "--cached")  # as a host reads it, of a tree


def test_what_a_commit_lacks_the_next_one_has(tmp_path: Path) -> None:
    repo = points.make(tmp_path / "work", {1: ("one", 1)})
    run_git("rm", "-q", ".gitattributes", cwd=repo.path)
    run_git("commit", "-q", "-m", "Without", cwd=repo.path)
    points.write(repo, {1: ("ONE", 1)})
    check(repo.path)
    assert run_git("status", "--porcelain", cwd=repo.path) == ""


LATER = {
    "*.json text eol=crlf": True,
    "* text=auto eol=crlf": True,
    "**/meta/** text": True,
    "* !text": True,
    "*.csv text": False,
    "# * text": False,
    "* -text": False,
    "*.json linguist-vendored": False,
}
"""What a person says after our lines, and whether it has git convert what is in datasets."""


@pytest.mark.parametrize("line", some(LATER, "*.json text eol=crlf", "*.csv text"))
def test_what_is_said_later_converts_no_document(tmp_path: Path, line: str) -> None:
    repo = points.make(tmp_path / "work", {1: ("one", 1)})
    repo.set_meta("points", {"description": "one\r\ntwo\n"})
    file = repo.path / ".gitattributes"
    before = file.read_text()
    file.write_text(f"{before}{line}\n*.md diff=markdown\n")
    run_git("commit", "-aqm", "Said", cwd=repo.path)
    points.write(repo, {1: ("ONE", 1)})

    text = file.read_text()
    assert sorted(text.splitlines()) == sorted([*before.splitlines(), line, "*.md diff=markdown"])
    assert text.endswith("diff=havasu\n") == LATER[line]
    for name in ("dataset.json", "meta/title", "meta/crs/a.wkt", "edits/1", "files/ab/c.json"):
        assert attributes(repo.path, f"points/.havasu-dataset/{name}")["text"] == "unset"
    run_git("clone", "-q", repo.path, tmp_path / "plain", cwd=tmp_path)
    assert run_git("status", "--porcelain", cwd=tmp_path / "plain") == ""
    text = "points/.havasu-dataset/meta/description"
    assert (tmp_path / "plain" / text).read_bytes() == b"one\r\ntwo\n"
    run_git("add", "--renormalize", ".", cwd=tmp_path / "plain")
    assert run_git("status", "--porcelain", cwd=tmp_path / "plain") == ""
    points.write(repo, {1: ("one", 1)})
    assert file.read_text().count("diff=havasu") == 1


SAID = (
    "* text",
    "* ident",
    "[!.]* working-tree-encoding=UTF-16",
    "[!.]* filter=shout",
    "* !text",
)
"""What a person says of all files, which would convert documents."""


@pytest.mark.parametrize("line", some(SAID, "* ident"))
@pytest.mark.parametrize(
    "folder",
    some(
        ("", "nz", "nz/points", "nz/points/.havasu-dataset", "nz/points/.havasu-dataset/meta"),
        "nz/points",
    ),
)
def test_what_is_said_in_any_folder_converts_no_document(
    tmp_path: Path, folder: str, line: str
) -> None:
    """A plain clone that touches and commits everything leaves a dataset as it is."""
    place = tmp_path / "work"
    succeed(invoke(["init", place]))
    (tmp_path / "points.csv").write_text("id,name\n1,one\n2,two\n")
    succeed(
        invoke(["-C", place, "import", tmp_path / "points.csv", "nz/points", "--primary-key", "id"])
    )
    own = "# mine\n*.md diff=markdown\n"
    file = Path(folder, ".gitattributes")
    (place / file.parent).mkdir(parents=True, exist_ok=True)
    before = (place / file).read_text() if (place / file).exists() else own
    (place / file).write_text(f"{before}{line}\n")
    run_git("add", "-f", "--sparse", file, cwd=place)
    run_git("commit", "-qm", "Said", cwd=place)
    # What is converted: ends of lines, and what `ident` puts in.
    text = "one\r\ntwo $Id: 7 $\r\n"
    succeed(invoke(["-C", place, "meta", "set", "nz/points", f"description={text}"]))

    inside = ".havasu-dataset" in folder
    listed = run_git("ls-tree", "-r", "--name-only", "HEAD", cwd=place).splitlines()
    assert (file.as_posix() in listed) == (not inside)
    if not inside:
        assert (place / file).read_text().startswith(f"{before}{line}\n" if folder else "")
        assert run_git("status", "--porcelain", cwd=place) == ""
    clone = tmp_path / "plain"
    run_git("clone", "-q", place, clone, cwd=tmp_path)
    run_git("config", "filter.shout.clean", "tr a-z A-Z", cwd=clone)
    documents = [name for name in listed if "/.havasu-dataset/" in name and (clone / name).exists()]
    assert len(documents) > 5
    for name in documents:
        (clone / name).touch()
    run_git("add", "--renormalize", ".", cwd=clone)
    assert run_git("status", "--porcelain", cwd=clone) == ""
    held = (clone / "nz/points/.havasu-dataset/meta/description").read_bytes()
    assert held == text.encode()
    succeed(invoke(["-C", place, "meta", "set", "nz/points", "title=t"]))
    assert run_git("diff", "--name-only", "HEAD^", cwd=place).splitlines() == [
        "nz/points/.havasu-dataset/meta/title"
    ]


def test_what_is_said_for_one_clone_alone_converts_no_document(tmp_path: Path) -> None:
    repo = points.make(tmp_path / "work", {1: ("one", 1)})
    run_git("clone", "-q", repo.path, tmp_path / "plain", cwd=tmp_path)
    file = tmp_path / "plain/.git/info/attributes"
    file.write_text("*.md diff=markdown\n* text ident\n")
    succeed(invoke(["-C", tmp_path / "plain", "status"]))

    assert file.read_text().startswith("*.md diff=markdown\n* text ident\n")
    asked = run_git(
        "check-attr",
        "text",
        "ident",
        "filter",
        "--",
        *("points/.havasu-dataset/dataset.json", "points/.havasu-dataset/meta/title"),
        cwd=tmp_path / "plain",
    )
    assert {line.rpartition(": ")[2] for line in asked.splitlines()} == {"unset"}
    before = file.read_text()
    succeed(invoke(["-C", tmp_path / "plain", "status"]))
    assert file.read_text() == before
