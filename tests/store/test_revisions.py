from collections.abc import Callable
from pathlib import Path

import pytest

from havasu_vc.errors import InvalidArgumentError, RevisionNotFoundError
from havasu_vc.store.objects import EMPTY_TREE
from havasu_vc.store.refs import create_branch, create_tag, move_ref
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.revisions import (
    RangeText,
    merge_base,
    parse_range,
    resolve,
    resolve_range,
)
from tests.store.committing import write_commit

Git = Callable[..., str]
DAY = 86_400


@pytest.fixture
def forked(repository: GitRepository) -> dict[str, str]:
    """root <- base <- ours (main), base <- theirs (side), ours+theirs <- merge (merged)."""
    made: dict[str, str] = {}
    parents = {"root": [], "base": ["root"], "ours": ["base"], "theirs": ["base"]}
    for number, (name, before) in enumerate(parents.items()):
        when = 1_577_836_800 + number * 365 * DAY  # 2020-01-01 and about a year later each
        ids = [made[parent] for parent in before]
        made[name] = write_commit(repository, {name: b"x"}, ids, message=name, time=when)
    made["merge"] = write_commit(
        repository, {"theirs": b"x"}, [made["ours"], made["theirs"]], time=1_800_000_000
    )
    move_ref(repository, "refs/heads/main", old=None, new=made["ours"], message="x")
    create_branch(repository, "side", made["theirs"])
    create_branch(repository, "merged", made["merge"])
    create_tag(repository, "v1", made["base"], message="One")
    return made


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("HEAD", "ours"),
        ("@", "ours"),
        ("main", "ours"),
        ("refs/heads/side", "theirs"),
        ("HEAD~2", "root"),
        ("side^", "base"),
        ("merged^2", "theirs"),
        ("merged^2~1", "base"),
        ("v1", "base"),
        ("v1^{}", "base"),
        ("HEAD^{/root}", "root"),
        ("merged^?", "ours"),
        ("^?", "base"),
        ("main@{2022-06-01}", "ours"),
        ("main@{2021-06-01}", "base"),
        ("main@{2021-06-01}^", "root"),
        ("@{2020-06-01}", "root"),
        ("merged@{yesterday}", "ours"),
        ("main@{0}", "ours"),
    ],
)
def test_names_of_commits(
    repository: GitRepository, forked: dict[str, str], name: str, expected: str
) -> None:
    found = resolve(repository, name)
    assert found.commit == forked[expected] and found.name == name
    assert found.tree == repository.git("rev-parse", f"{forked[expected]}^{{tree}}").text


def test_short_ids(repository: GitRepository, forked: dict[str, str]) -> None:
    assert resolve(repository, forked["base"][:9]).commit == forked["base"]
    assert resolve(repository, forked["base"]).commit == forked["base"]


def test_dates_without_a_reflog(
    repository: GitRepository, forked: dict[str, str], git: Git, tmp_path: Path
) -> None:
    git("clone", "-q", "--bare", repository.path, tmp_path / "bare", cwd=tmp_path)
    bare = GitRepository.open(tmp_path / "bare")
    assert resolve(bare, "main@{2021-06-01}").commit == forked["base"]
    with pytest.raises(RevisionNotFoundError) as caught:
        resolve(bare, "main@{1999-01-01}")
    assert "younger" in caught.value.hints[0]


def test_the_empty_revision(repository: GitRepository, forked: dict[str, str]) -> None:
    for name in ("[EMPTY]", EMPTY_TREE, "HEAD~2^?", "[EMPTY]^?"):
        found = resolve(repository, name)
        assert found.is_empty and found.tree == EMPTY_TREE and found.commit is None


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "name",
    [
        "",
        "none",
        "HEAD~9",
        "HEAD^{tree}",
        "HEAD:root",
        "-x",
        "--all",
        "a b",
        "main@{nonsense}",
        "main@{99}",
        "main@{u}",
        "none@{yesterday}",
        "HEAD^{",
        "\n",
        "1" * 40,
        "abc",
        "HEAD..",
    ],
)
def test_what_names_no_commit(repository: GitRepository, forked: dict[str, str], name: str) -> None:
    with pytest.raises(RevisionNotFoundError, match="no commit is named") as caught:
        resolve(repository, name)
    assert caught.value.revision == name and caught.value.hints


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", RangeText("HEAD", None)),
        ("a", RangeText("a", None)),
        ("a..b", RangeText("a", "b")),
        ("a...b", RangeText("a", "b", from_merge_base=True)),
        ("a..", RangeText("a", "HEAD")),
        ("...b", RangeText("HEAD", "b", from_merge_base=True)),
        ("v1.2..v1.3", RangeText("v1.2", "v1.3")),
        ("[EMPTY]...b^?", RangeText("[EMPTY]", "b^?", from_merge_base=True)),
    ],
)
def test_the_ends_of_a_range(text: str, expected: RangeText) -> None:
    assert parse_range(text) == expected


@pytest.mark.parametrize("text", ["a..b..c", "a....b", "a...b...c"])
def test_more_than_two_ends(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="not a range"):
        parse_range(text)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("main..side", "ours", "theirs"),
        ("main...side", "base", "theirs"),
        ("side...main", "base", "ours"),
        ("v1...main", "base", "ours"),
        ("v1", "base", "ours"),
        ("HEAD", "ours", "ours"),
        ("main^?..", "base", "ours"),
        ("[EMPTY]...side", None, "theirs"),
        ("[EMPTY]..side", None, "theirs"),
    ],
)
def test_ranges(
    repository: GitRepository,
    forked: dict[str, str],
    text: str,
    old: str | None,
    new: str,
) -> None:
    found = resolve_range(repository, text)
    assert found.old.commit == (forked[old] if old else None)
    assert found.new.commit == forked[new]


def test_a_range_before_the_first_commit(repository: GitRepository) -> None:
    found = resolve_range(repository, "HEAD")
    assert found.old.is_empty and found.new.is_empty


def test_merge_bases(repository: GitRepository, forked: dict[str, str]) -> None:
    alone = write_commit(repository, {"alone": b"x"})
    create_branch(repository, "alone", alone)
    assert merge_base(repository, forked["ours"], forked["theirs"]) == forked["base"]
    assert merge_base(repository, forked["ours"], forked["merge"]) == forked["ours"]
    assert merge_base(repository, alone, forked["ours"]) is None
    with pytest.raises(RevisionNotFoundError) as caught:
        resolve_range(repository, "alone...main")
    assert "no common ancestor" in caught.value.hints[0]
