import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.store.log import LogFilter, children_first, commits, parse_date
from havasu_vc.store.preparation import init_repository
from havasu_vc.store.repository import GitRepository
from tests.store.committing import write_commit
from tests.support.examples import examples

Git = Callable[..., str]
PATHS = ("a/b", "a/c", "d")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> GitRepository:
    return init_repository(tmp_path_factory.mktemp("log"), bare=True)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[list[int], dict[str, bytes | None]]]:
    """Return commits as parents (by number) and changes upon the first parent."""
    made: list[tuple[list[int], dict[str, bytes | None]]] = []
    for number in range(draw(st.integers(1, 9))):
        parents = (
            draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=2, unique=True))
            if number
            else []
        )
        contents = st.none() | st.sampled_from([b"1", b"2"])
        made.append((parents, draw(st.dictionaries(st.sampled_from(PATHS), contents, max_size=2))))
    return made


@examples(50)
@given(
    history=histories(),
    paths=st.sampled_from([(), ("a",), ("a/b",), ("d", "a/c"), ("none",)]),
    of_a_second=st.sampled_from([1, 3, 9]),
    others=st.lists(st.integers(0, 8), max_size=2),
    hidden=st.lists(st.integers(0, 8), max_size=2),
)
def test_the_commits_are_those_that_git_shows(
    shared: GitRepository,
    history: list[tuple[list[int], dict[str, bytes | None]]],
    paths: tuple[str, ...],
    of_a_second: int,
    others: list[int],
    hidden: list[int],
) -> None:
    made: list[str] = []
    for number, (parents, changes) in enumerate(history):
        ids = [made[parent] for parent in parents]
        when = 1_700_000_000 + number // of_a_second
        made.append(write_commit(shared, dict(changes), ids, message=f"{number}", time=when))
    also, hide = ([made[n] for n in each if n < len(made)] for each in (others, hidden))
    if paths and any(len(parents) > 1 for parents, _ in history):
        # Whether git follows a merge to a side that is left out depends on when it learns that.
        hide = []

    wanted = LogFilter(paths=paths)
    found = [commit.id for commit in commits(shared, made[-1], wanted, also=also, hide=hide)]

    names = [made[-1], *also, *(f"^{each}" for each in hide)]
    assert found == shared.git("log", "--format=%H", *names, "--", *paths).text.split()

    ordered = list(children_first(shared, [made[-1], *also], hide))
    assert set(ordered) == set(shared.git("rev-list", *names).text.split())
    for number, (parents, _) in enumerate(history):
        for parent in parents:
            if made[number] in ordered and made[parent] in ordered:
                assert ordered.index(made[number]) < ordered.index(made[parent])


def chain(repository: GitRepository, count: int) -> list[str]:
    made: list[str] = []
    for number in range(count):
        changes = {"README" if number % 10 else "data/x/y": b"%d" % number}
        when = 1_700_000_000 + number
        message = f"number {number}\n\nin detail"
        made.append(write_commit(repository, changes, made[-1:], message=message, time=when))
    return made


def test_limits_and_conditions(repository: GitRepository) -> None:
    made = chain(repository, 30)

    def numbers(wanted: LogFilter) -> list[int]:
        return [made.index(commit.id) for commit in commits(repository, made[-1], wanted)]

    assert numbers(LogFilter(limit=3)) == [29, 28, 27]
    assert numbers(LogFilter(skip=2, limit=1)) == [27]
    assert numbers(LogFilter(limit=0)) == []
    assert numbers(LogFilter(paths=("data",))) == [20, 10, 0]
    assert numbers(LogFilter(paths=("data",), skip=1, limit=1)) == [10]
    assert numbers(LogFilter(since=1_700_000_027, until=1_700_000_028)) == [28, 27]
    assert numbers(LogFilter(grep="^number 2$")) == [2]
    assert numbers(LogFilter(grep="^in detail", limit=1)) == [29]
    assert len(numbers(LogFilter(author="^Ann <ann@"))) == 30
    assert numbers(LogFilter(author="Bob")) == []
    hidden = commits(repository, made[-1], hide=[made[26]])
    assert [made.index(commit.id) for commit in hidden] == [29, 28, 27]
    first = next(commits(repository, made[-1]))
    assert first.subject == "number 29" and first.message.endswith("in detail")
    assert first.author.email == "ann@example.org" and first.parents == (made[28],)
    with pytest.raises(InvalidArgumentError, match="--grep"):
        list(commits(repository, made[-1], LogFilter(grep="(")))


def test_a_shallow_clone_ends_where_it_ends(
    repository: GitRepository, git: Git, tmp_path: Path
) -> None:
    made = chain(repository, 12)
    repository.git("update-ref", "refs/heads/main", made[-1])
    url = f"file://{repository.path}"
    git("clone", "-q", "--depth=3", "--no-checkout", url, tmp_path / "shallow", cwd=tmp_path)
    shallow = GitRepository.open(tmp_path / "shallow")
    for paths in ((), ("README",)):
        found = [commit.id for commit in commits(shallow, made[-1], LogFilter(paths=paths))]
        expected = shallow.git("log", "--format=%H", made[-1], "--", *paths).text.split()
        assert found == expected and len(found) >= 1


def test_dates_are_gits(repository: GitRepository) -> None:
    assert parse_date(repository, "2020-01-01T00:00:00Z") == 1_577_836_800
    assert abs(parse_date(repository, "2 weeks ago") - (time.time() - 14 * 86_400)) < 60


@pytest.mark.thorough
def test_thousands_of_commits_are_quick(repository: GitRepository) -> None:
    lines = [
        f"commit refs/heads/main\ncommitter A <a@b> {1_700_000_000 + number} +0000\n"
        f"data 1\nx\nM 100644 inline f{number % 100}/x\ndata {len(str(number))}\n{number}\n"
        for number in range(3_000)
    ]
    repository.git("fast-import", "--quiet", stdin="".join(lines).encode())
    tip = repository.git("rev-parse", "main").text

    start = time.process_time()
    found = list(commits(repository, tip, LogFilter(paths=("f7",))))
    took = time.process_time() - start

    assert len(found) == 30
    assert took < 3
