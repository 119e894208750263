"""A broken dataset is an ordinary event: it is named, and every command works on the others."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from havasu_vc import Repo
from tests.cli.conftest import invoke, succeed
from tests.repo.points import read, table, write
from tests.support.broken import (
    BREAKS,
    FIRST,
    KART_BREAKS,
    NAMED,
    OURS,
    THEIRS,
    commit_tree,
    listed,
    make_bare,
    make_sound,
    make_sound_kart,
    set_files,
)
from tests.support.examples import some
from tests.support.git import run_git
from tests.support.templates import copy_tree

pytestmark = pytest.mark.few(3)

UNREADABLE = [way for way in BREAKS if way not in NAMED]
SAID = {"a line end in its name": r"a\nb", "a drive in its name": "'a:b'"}
SOME = ("our side's text", "no schema", "half an identity", *NAMED)
"""One way of each kind, for what takes long."""


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sound(tmp_path_factory.mktemp("broken"))


@pytest.fixture(scope="session")
def broken(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A repository for each way in which a dataset broke."""
    folder = tmp_path_factory.mktemp("ways")
    found = {}
    for number, (way, break_it) in enumerate(BREAKS.items()):
        found[way] = copy_tree(sound, folder / str(number))
        break_it(found[way])
    return found


@pytest.fixture
def place(broken: dict[str, Path], way: str, tmp_path: Path) -> Path:
    return copy_tree(broken[way], tmp_path / "repo")


def havasu(place: Path, *arguments: str | Path) -> Result:
    """Run a command; whatever is wrong is told in lines of ours."""
    done = invoke(["-C", place, *arguments])
    assert "internal error" not in done.stderr, done.stderr
    assert "Traceback" not in done.output
    return done


def named(text: str, way: str) -> int:
    """Return how many lines name the broken dataset and say what is wrong."""
    said = SAID.get(way, "bad at ")
    return sum(said in line for line in text.splitlines() if not line.startswith("Hint:"))


# What only looks. `+` stands before what tells of every dataset, `!` before what lacks one then.
LOOKS = [
    ("+0", ("data", "ls")),
    ("+0", ("data", "ls", "-l")),
    ("+0", ("data", "ls", "-l", "-o", "json")),
    (" 0", ("data", "ls", "dev")),
    (" 0", ("data", "status")),
    (" 0", ("data", "verify")),
    (" 0", ("log",)),
    (" 0", ("log", "-o", "json")),
    (" 0", ("log", "--", "good")),
    (" 0", ("blame", "good")),
    (" 0", ("meta", "get", "good")),
    ("+0", ("meta", "get")),
    ("+0", ("meta", "get", "-o", "json")),
    (" 0", ("validate", "good")),
    (" 0", ("branch",)),
    (" 0", ("tag",)),
    (" 0", ("diff",)),
    (" 0", ("diff", "HEAD^...HEAD", "good")),
    ("!0", ("diff", "HEAD^...HEAD")),
    ("!0", ("diff", "HEAD^...HEAD", "-o", "json")),
    ("!0", ("diff", "HEAD^...HEAD", "-o", "geojson")),
    ("!0", ("diff", "HEAD^...HEAD", "-o", "json-lines")),
    ("!0", ("diff", "HEAD^...HEAD", "-o", "feature-count")),
    ("!0", ("show",)),
    ("!0", ("show", "-o", "json")),
    (" 0", ("show", "dev")),
    ("+0", ("optimize", "--dry-run")),
    (" 0", ("optimize", "good", "--dry-run")),
    (" 0", ("gc", "--dry-run")),
    (" 0", ("sql", "--help")),
]


@pytest.mark.parametrize("since", ["", "one more commit", "bare"])
@pytest.mark.parametrize("way", some(SOME, "our side's text", NAMED[0]))
@pytest.mark.few(1)
def test_what_looks_works_on_the_others(place: Path, way: str, since: str) -> None:
    if since == "one more commit":
        set_files(place, {"README": b"more\n"}, "More")
    elif since == "bare":
        make_bare(place)
    for expected, arguments in LOOKS:
        done = havasu(place, *arguments)

        lacks = expected[0] == "!" and way not in NAMED and since != "one more commit"
        assert done.exit_code == (20 if lacks else 0), (arguments, done.output)
        count = named(done.stderr, way)
        assert count <= 1, (arguments, done.stderr)
        if expected[0] == "+" or lacks:
            assert count == 1, (arguments, done.stderr)
        if "json" in arguments:
            json.loads(done.stdout)  # which is whole


@pytest.mark.few(1)
@pytest.mark.parametrize("way", BREAKS)
def test_every_way_is_seen_by_what_looks_for_it(place: Path, way: str) -> None:
    status, fsck = havasu(place, "status"), havasu(place, "fsck")
    check, valid = havasu(place, "check"), havasu(place, "validate")
    as_json = json.loads(succeed(havasu(place, "status", "-o", "json")).stdout)

    assert status.exit_code == 0
    assert named(status.stdout, way) == 1
    assert len(as_json["havasu.status/v1"]["problems"]) == 1
    assert fsck.exit_code == 1
    assert named(fsck.stdout, way) >= 1
    assert (check.exit_code, named(check.stdout, way)) == (1, 1)
    assert check.stdout.startswith("refused: ")
    if way not in NAMED:
        assert (valid.exit_code, named(valid.stdout, way)) == (1, 1)


@pytest.mark.parametrize("way", ["no schema"])
def test_check_only_warns_where_that_is_asked_for(place: Path) -> None:
    done = succeed(havasu(place, "check", "--allow-broken"))
    as_json = json.loads(havasu(place, "check", "-o", "json").stdout)["havasu.check/v1"]

    assert done.stdout.startswith("warning: bad: ")
    assert as_json["refused"] == 1
    assert as_json["findings"][0]["rule"] == "broken"
    assert havasu(place, "check", "dev").exit_code == 0


@pytest.mark.parametrize("way", some(BREAKS, *SOME))
def test_copies_and_reviews_hold_the_others(place: Path, way: str, tmp_path: Path) -> None:
    assert succeed(havasu(place, "export", "good", tmp_path / "good.csv"))
    copy = succeed(havasu(place, "checkout", "--as", tmp_path / "copy.gpkg"))
    review = succeed(havasu(place, "review", "HEAD^...HEAD"))
    refusals = json.loads(havasu(place, "review", "HEAD^...HEAD", "-o", "json").stdout)
    assert '"rule": "broken"' in json.dumps(refusals)
    same = json.loads(havasu(place, "review", "HEAD...HEAD", "-o", "json").stdout)
    assert '"rule": "broken"' not in json.dumps(same)
    tables = succeed(havasu(place, "checkout"))
    again = succeed(havasu(place, "checkout"))
    elsewhere = succeed(havasu(place, "checkout", "HEAD", "--to", tmp_path / "tables"))

    assert {named(each.stderr, way) for each in (copy, tables, again, elsewhere)} == {1}
    assert named(review.stdout + review.stderr, way) >= (way not in NAMED)
    assert (place / "tables" / "good" / "metadata").is_dir()
    assert (tmp_path / "tables" / "good" / "metadata").is_dir()
    patch = havasu(place, "create-patch", "HEAD")
    assert patch.exit_code == (0 if way in NAMED else 20)
    assert (patch.stdout == "") == (way not in NAMED)
    asked = havasu(place, "export", "bad", tmp_path / "bad.csv")
    assert asked.exit_code == (0 if way in NAMED else 20)


@pytest.mark.parametrize("way", some(BREAKS, *SOME))
def test_a_clone_has_the_others(place: Path, way: str, tmp_path: Path) -> None:
    done = succeed(invoke(["clone", place, tmp_path / "clone"]))
    fetched = succeed(havasu(tmp_path / "clone", "fetch"))
    pulled = succeed(havasu(tmp_path / "clone", "pull"))

    assert named(done.stderr + fetched.stderr, way) <= 1
    assert pulled.exit_code == 0
    assert read(Repo.open(tmp_path / "clone"), dataset="good") == FIRST
    assert named(havasu(tmp_path / "clone", "status").stdout, way) == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("way", SOME)
def test_broken_on_another_branch_alone(place: Path, way: str) -> None:
    run_git("branch", "broken", cwd=place)
    run_git("reset", "-q", "--hard", "dev", cwd=place)

    for arguments in (("data", "ls"), ("check",), ("validate",), ("status",), ("show",)):
        done = succeed(havasu(place, *arguments))
        assert named(done.output, way) == 0, arguments
    assert named(havasu(place, "fsck").stdout, way) >= 1
    ahead = succeed(havasu(place, "merge", "broken"))
    assert named(ahead.stderr, way) == 1 or way in NAMED


# Carrying on


@pytest.mark.thorough
@pytest.mark.parametrize("way", some(BREAKS, *SOME))
def test_commit_and_push_refuse_to_carry_it_on(place: Path, way: str, tmp_path: Path) -> None:
    copy, server = tmp_path / "copy.gpkg", tmp_path / "server.git"
    succeed(havasu(place, "checkout", "--as", copy, "good"))
    run_git("init", "-q", "--bare", server, cwd=tmp_path)
    run_git("remote", "add", "origin", server, cwd=place)

    commit = ("commit", "--from", copy, "-m", "More", "--allow-empty")
    refused = havasu(place, *commit)
    assert refused.exit_code == 20
    assert named(refused.stderr, way) == 1
    assert "--allow-broken" in refused.stderr
    allowed = succeed(havasu(place, *commit, "--allow-broken"))
    assert named(allowed.stderr, way) == 1

    push = havasu(place, "push", "origin", "main")
    assert push.exit_code == 20
    assert named(push.stderr, way) == 1
    assert "main" in push.stderr
    assert run_git("for-each-ref", cwd=server) == ""
    # What is sound goes.
    succeed(havasu(place, "push", "origin", "dev"))
    rescued = succeed(havasu(place, "push", "origin", "main", "--allow-broken"))
    assert named(rescued.stderr, way) == 1
    assert run_git("rev-parse", "main", cwd=server) == run_git("rev-parse", "HEAD", cwd=place)


@pytest.mark.thorough
@pytest.mark.parametrize("way", some(UNREADABLE, *SOME))
def test_a_repair_is_pushed_without_force(place: Path, way: str, tmp_path: Path) -> None:
    server = tmp_path / "server.git"
    run_git("init", "-q", "--bare", server, cwd=tmp_path)
    run_git("remote", "add", "origin", server, cwd=place)
    succeed(havasu(place, "push", "origin", "main", "--allow-broken"))

    succeed(havasu(place, "repair"))
    succeed(havasu(place, "push", "origin", "main"))

    succeed(invoke(["clone", server, tmp_path / "clone"]))
    assert succeed(havasu(tmp_path / "clone", "check"))
    assert read(Repo.open(tmp_path / "clone"), dataset="bad") == read(
        Repo.open(place), dataset="bad"
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("way", SOME)
def test_the_others_are_edited(place: Path, way: str, tmp_path: Path) -> None:
    repo = Repo.open(place)
    repo.write("good", table({50: ("fifty", 50)}))
    title = succeed(havasu(place, "meta", "set", "good", "title=Good"))
    import pyarrow.parquet as pq

    pq.write_table(table({1: ("new", 1)}), tmp_path / "new.parquet")
    new = succeed(havasu(place, "import", tmp_path / "new.parquet", "new", "--primary-key", "id"))
    back = succeed(havasu(place, "restore", "-s", "HEAD~3", "good"))

    assert read(repo, dataset="good") == FIRST
    assert read(repo, dataset="new") == {1: ("new", 1)}
    assert all(named(each.stderr, way) <= 1 for each in (title, new, back))


@pytest.mark.parametrize("way", some(BREAKS, *SOME))
def test_the_others_are_merged(place: Path, way: str) -> None:
    run_git("branch", "topic", "HEAD", cwd=place)
    repo = Repo.open(place)
    write(repo, {**FIRST, 1: ("one", 1)}, dataset="good")
    repo.switch("topic")
    write(repo, {**FIRST, 2: ("two", 2)}, dataset="good")
    repo.switch("main")

    done = succeed(havasu(place, "merge", "topic"))

    assert read(repo, dataset="good") == {**FIRST, 1: ("one", 1), 2: ("two", 2)}
    assert named(done.stderr, way) == 1
    # Nothing of it is dropped by that.
    before, after = listed(place, "HEAD^"), listed(place)
    assert {p: b for p, b in before.items() if "good/" not in p or p[:4] != "good"} == {
        p: b for p, b in after.items() if "good/" not in p or p[:4] != "good"
    }


# Replacing it


def replaced(place: Path, *arguments: str | Path) -> dict[int, object]:
    """Run what replaces the dataset; return its rows."""
    done = succeed(havasu(place, *arguments))
    assert named(done.stderr, "") <= 1
    assert havasu(place, "check").exit_code == 0
    return read(Repo.open(place), dataset="bad")


def since(place: Path, more: bool) -> None:
    if more:
        set_files(place, {"README": b"more\n"}, "More")


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("way", some(UNREADABLE, *SOME))
def test_restore_replaces_it(place: Path, way: str, more: bool) -> None:
    since(place, more)
    assert replaced(place, "restore", "-s", "dev", "bad") == THEIRS


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("way", some((w for w in UNREADABLE if "side" not in w), *SOME))
def test_revert_replaces_it(place: Path, way: str, more: bool) -> None:
    since(place, more)
    assert replaced(place, "revert", "HEAD^" if more else "HEAD") == OURS


@pytest.mark.few(1)
@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("way", some(UNREADABLE, *SOME))
def test_an_import_replaces_it(place: Path, way: str, more: bool, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    since(place, more)
    before = Repo.open(place).dataset("bad", "dev").schema
    pq.write_table(table(THEIRS), tmp_path / "release.parquet")

    assert replaced(place, "import", tmp_path / "release.parquet", "bad", "--replace") == THEIRS
    assert Repo.open(place).dataset("bad").schema == before


@pytest.mark.parametrize("way", some(UNREADABLE, *SOME))
def test_a_merge_replaces_it(place: Path, way: str) -> None:
    # A branch of before, on which somebody did it right.
    start = run_git("merge-base", "HEAD", "dev", cwd=place)
    repo = Repo.open(place)
    repo.create_branch("right", start)
    repo.switch("right")
    write(repo, {**FIRST, 8: ("right", 8)}, dataset="bad")
    repo.switch("main")

    stopped = havasu(place, "merge", "right")
    assert named(stopped.stderr, way) == 1
    assert "bad" in succeed(havasu(place, "conflicts", "-s")).stdout
    assert isinstance(json.loads(havasu(place, "conflicts", "-o", "json").stdout), dict)
    assert isinstance(json.loads(havasu(place, "status", "-o", "json").stdout), dict)
    succeed(havasu(place, "resolve", "bad", "--with", "theirs"))
    rows = replaced(place, "merge", "--continue")

    assert rows == {**FIRST, 8: ("right", 8)}


@pytest.mark.parametrize("way", ["no schema"])
def test_a_policy_of_a_merge_replaces_it(place: Path) -> None:
    start = run_git("merge-base", "HEAD", "dev", cwd=place)
    repo = Repo.open(place)
    repo.create_branch("right", start)
    repo.switch("right")
    write(repo, {**FIRST, 8: ("right", 8)}, dataset="bad")
    repo.switch("main")

    assert replaced(place, "merge", "right", "-X", "theirs") == {**FIRST, 8: ("right", 8)}


def test_a_strange_name_shares_its_data(sound: Path, tmp_path: Path) -> None:
    place = copy_tree(sound, tmp_path / "repo")
    # Its folder stands first in the tree, so that git names its objects by it.
    files = {path: blob for path, blob in listed(place).items() if not path.startswith("good/")}
    good = {p.removeprefix("good/"): b for p, b in listed(place).items() if p[:5] == "good/"}
    strange = {f"a\nb/{rest}": blob for rest, blob in good.items()}
    commit_tree(place, {**files, **strange}, "A strange name")
    run_git("checkout", "-q", "--orphan", "alone", cwd=place)
    run_git("commit", "-qm", "alone", cwd=place)
    for branch in ("main", "dev"):
        run_git("branch", "-qD", branch, cwd=place)

    succeed(invoke(["clone", place, tmp_path / "clone"]))

    assert held(tmp_path / "clone") >= held(place) - unreached(place)


def held(place: Path) -> set[str]:
    folder = place / ".git" / "havasu" / "objects"
    return {path.name for path in folder.rglob("*") if path.is_file()}


def unreached(place: Path) -> set[str]:
    names = {path.rpartition("/")[2] for path in listed(place)}
    return {name for name in held(place) if name not in names}


def test_conflicts_outside_of_a_merge_print_nothing(sound: Path) -> None:
    for output in ("json", "geojson", "text", "quiet"):
        done = havasu(sound, "conflicts", "-o", output)

        assert (done.exit_code, done.stdout) == (20, "")
        assert "there is no merge to go on with" in done.stderr


# Datasets of Kart's


@pytest.fixture(scope="session")
def sound_kart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sound_kart(tmp_path_factory.mktemp("kart"))


@pytest.fixture
def kart(sound_kart: Path, kart_way: str, tmp_path: Path) -> Path:
    place = copy_tree(sound_kart, tmp_path / "repo")
    KART_BREAKS[kart_way](place)
    return place


@pytest.mark.thorough
@pytest.mark.parametrize("kart_way", some(KART_BREAKS, "no schema", "a garbled feature"))
def test_a_dataset_of_karts_is_an_ordinary_event_too(
    kart: Path, kart_way: str, tmp_path: Path
) -> None:
    hidden = kart_way == "a garbled feature"  # which no document tells of

    for expected, arguments in LOOKS:
        if arguments == ("data", "ls", "dev") or arguments == ("show", "dev"):
            continue
        done = havasu(kart, *arguments)
        lacks = 20 if expected[0] == "!" else 0
        assert (done.exit_code in (11, 20)) == bool(lacks), (arguments, done.output)
        if "json" in arguments:
            json.loads(done.stdout)
        if lacks:
            assert "bad" in done.stderr, (arguments, done.stderr)
    assert havasu(kart, "fsck", "--full").exit_code == 1
    assert havasu(kart, "validate").exit_code == 1
    assert havasu(kart, "check").exit_code == (0 if hidden else 1)
    assert ("bad" in havasu(kart, "status").stdout) != hidden
    succeed(havasu(kart, "export", "good", tmp_path / "good.csv"))
    assert havasu(kart, "export", "bad", tmp_path / "bad.csv").exit_code == 11
    succeed(havasu(kart, "review", "HEAD^...HEAD"))

    done = succeed(havasu(kart, "repair", "bad"))
    assert "is not in it" in done.stderr
    assert havasu(kart, "fsck", "--full").exit_code == 0
    assert read(Repo.open(kart), dataset="bad") == OURS
    assert "nothing to repair" in succeed(havasu(kart, "repair", "bad")).stderr


@pytest.mark.parametrize("kart_way", ["no schema"])
def test_a_dataset_of_karts_is_replaced(kart: Path) -> None:
    for arguments in (("restore", "-s", "HEAD~2", "bad"), ("revert", "HEAD")):
        place = copy_tree(kart, kart.parent / arguments[0])
        succeed(havasu(place, *arguments))

        assert havasu(place, "check").exit_code == 0


# Data that is nowhere


def test_data_that_is_nowhere(sound: Path, tmp_path: Path) -> None:
    place = copy_tree(sound, tmp_path / "repo")
    mine = {path.rpartition("/")[2] for path in listed(place) if path.startswith("bad/")}
    others = {path.rpartition("/")[2] for path in listed(place, "HEAD^")}
    for file in (place / ".git" / "havasu").rglob("*"):
        if file.name in mine - others:
            file.unlink()

    for arguments in (("data", "ls"), ("status",), ("log",), ("checkout", "-h"), ("check",)):
        succeed(havasu(place, *arguments))
    for output in ("text", "json", "feature-count"):
        done = havasu(place, "diff", "[EMPTY]...HEAD", "-o", output)
        assert done.exit_code == 42
        assert "bad" in done.stderr
        assert "good" in done.stdout
        if output == "json":
            assert set(json.loads(done.stdout)["kart.diff/v1+hexwkb"]) >= {"good", "other"}
    tables = havasu(place, "checkout")
    assert "bad" in tables.stderr
    assert (place / "tables" / "good" / "metadata").is_dir()
    assert havasu(place, "validate").exit_code == 1
    assert havasu(place, "fsck").exit_code == 1
    succeed(havasu(place, "repair", "bad", "--from", "HEAD^"))
    assert havasu(place, "data", "ls").exit_code == 0


def test_a_pointer_in_history_that_is_none_is_pushed_where_that_is_allowed(
    sound: Path, tmp_path: Path
) -> None:
    place, server = copy_tree(sound, tmp_path / "repo"), tmp_path / "server.git"
    name = "ab" * 32
    pointer = f"bad/.havasu-dataset/data/{name[:2]}/{name}"
    set_files(place, {pointer: b"no pointer\n"}, "Broken")
    set_files(place, {pointer: None}, "Mended")
    run_git("init", "-q", "--bare", server, cwd=tmp_path)
    run_git("remote", "add", "origin", server, cwd=place)

    refused = havasu(place, "push", "origin", "main")
    assert refused.exit_code and f"the pointer to {name}" in refused.stderr
    assert run_git("for-each-ref", cwd=server) == ""

    succeed(havasu(place, "push", "origin", "main", "--allow-broken"))
    assert run_git("rev-parse", "main", cwd=server) == run_git("rev-parse", "HEAD", cwd=place)
    succeed(invoke(["-C", place, "push", "--allow-broken", "origin", "main:again"]))


def loose_tree(repo: Path) -> tuple[str, Path]:
    """Return the id of the tree of HEAD, and its file, for which all objects leave their packs."""
    objects = repo / ".git/objects"
    for pack in sorted(objects.glob("pack/*.pack")):
        data = pack.read_bytes()
        for part in objects.glob(f"pack/{pack.stem}.*"):
            part.unlink()
        subprocess.run(["git", "unpack-objects", "-q"], input=data, cwd=repo, check=True)
    tree = run_git("rev-parse", "HEAD^{tree}", cwd=repo).strip()
    return tree, objects / tree[:2] / tree[2:]


COMMANDS = (("status",), ("data", "ls"), ("cat", "parcels"), ("fsck",), ("diff", "HEAD^?...HEAD"))


@pytest.mark.parametrize("damage", [b"", b"no object", None])
def test_an_object_that_git_cannot_read_is_named(
    sound: Path, tmp_path: Path, damage: bytes | None
) -> None:
    """The hint is git's own check and the way to get it again, which helps."""
    repo = copy_tree(sound, tmp_path / "repo")
    run_git("clone", "-q", "--bare", str(repo), str(tmp_path / "server"), cwd=tmp_path)
    run_git("remote", "add", "away", str(tmp_path / "server"), cwd=repo)
    tree, file = loose_tree(repo)
    file.unlink()
    if damage is not None:
        file.write_bytes(damage)
    why = "it is missing" if damage is None else "its file is damaged or cut short"
    for command in COMMANDS:
        result = invoke(["-C", repo, *command])
        assert result.exit_code == 11
        error, hint = result.stderr.splitlines()
        assert error.startswith(f"Error: git object {tree}: ") and error.endswith(why)
        assert "`git fsck` names each" in hint and "`git fetch --refetch`" in hint
    file.unlink(missing_ok=True)
    run_git("fetch", "-q", "--refetch", "away", cwd=repo)
    for command in COMMANDS[:1]:
        succeed(invoke(["-C", repo, *command]))


@pytest.mark.skipif(sys.platform == "win32", reason="files have no such modes")
def test_an_object_that_somebody_may_not_read_is_named(sound: Path, tmp_path: Path) -> None:
    repo = copy_tree(sound, tmp_path / "repo")
    tree, file = loose_tree(repo)
    file.chmod(0)
    program = "from havasu_vc.cli.main import cli; cli()"
    command = [sys.executable, "-c", program, "-C", str(repo), "data", "ls"]
    if os.geteuid() == 0:  # who may do anything, if that is not taken from him
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv")
        caps = "-dac_override,-dac_read_search"
        command = ["setpriv", f"--inh-caps={caps}", f"--bounding-set={caps}", *command]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 11
    error, hint = result.stderr.splitlines()
    assert error == f"Error: git object {tree}: it cannot be read: permission denied"
    assert hint == f"Hint: let yourself read what is in {repo / '.git/objects'}"
