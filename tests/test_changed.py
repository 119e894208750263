"""Which tests are run for a change."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import changed
from tests.changed import EVERYTHING, affected, changed_files
from tests.test_layers import HEIGHT

SOURCES = {
    "tests/conftest.py": "from tests.support.session import start",
    "tests/support/session.py": "from havasu_vc.spark import session",
    "tests/geo/test_wkb.py": "from havasu_vc.geo.wkb import parse_wkb",
    "tests/geo/pictures/test_marks.py": "import havasu_vc.writers.marks",
    "tests/tables/test_spark.py": 'def test_frames(spark: "SparkSession") -> None: ...',
    "tests/store/conftest.py": "from havasu_vc.store import refs",
    "tests/store/test_refs.py": "def test_a_ref(repository) -> None: ...",
    "tests/repo/points.py": "from havasu_vc import Repo",
    "tests/repo/test_write.py": "from tests.repo import (\n    points,\n)",
    "tests/compat/test_program.py": 'subprocess.run(["havasu-vc", "log"])',
    "tests/history/test_merge.py": "from havasu_vc.testing.memory import Memory",
    "tests/test_docs.py": 'PAGES = Path("docs").rglob("*.md")',
    "havasu_vc/testing/memory.py": "from havasu_vc.datasets.protocol import Dataset",
}
TESTS = {path for path in SOURCES if "/test_" in path}
OF_ALL = {"tests/test_docs.py"}


def found(*paths: str) -> set[str]:
    return {path for path in affected(paths, SOURCES) if not path.startswith("havasu_vc/")}


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("havasu_vc/errors.py", TESTS),
        ("havasu_vc/geo/wkb.py", TESTS),
        ("havasu_vc/store/refs.py", TESTS - {"tests/geo/test_wkb.py"}),
        (
            "havasu_vc/engine/local.py",
            {
                "tests/geo/pictures/test_marks.py",
                "tests/tables/test_spark.py",
                "tests/repo/test_write.py",
                "tests/compat/test_program.py",
            }
            | OF_ALL,
        ),
        (
            "havasu_vc/spark/reading.py",
            {"tests/tables/test_spark.py", "tests/compat/test_program.py"} | OF_ALL,
        ),
        ("havasu_vc/cli/main.py", {"tests/compat/test_program.py"} | OF_ALL),
        ("havasu_vc/testing/memory.py", {"tests/history/test_merge.py"}),
        ("tests/repo/points.py", {"tests/repo/test_write.py"}),
        ("tests/geo/test_wkb.py", {"tests/geo/test_wkb.py"}),
        ("tests/store/conftest.py", {"tests/store/test_refs.py"}),
        (
            "tests/geo/golden/one.txt",
            {"tests/geo/test_wkb.py", "tests/geo/pictures/test_marks.py"},
        ),
        ("docs/index.md", OF_ALL),
        (".github/workflows/ci.yml", set()),
    ],
)
def test_what_a_change_affects(path: str, tests: set[str]) -> None:
    assert found(path) == tests


def test_doctests_are_those_of_the_part_and_of_what_stands_on_it() -> None:
    paths = set(affected(["havasu_vc/library/log.py"], SOURCES)) - TESTS
    assert paths == {
        "havasu_vc/library",
        "havasu_vc/face",
        "havasu_vc/serving",
        "havasu_vc/__init__.py",
        "havasu_vc/spark",
        "havasu_vc/cli",
    }


@pytest.mark.parametrize(
    "path",
    [
        "pyproject.toml",
        "tests/conftest.py",
        "tests/support/session.py",
        "fixtures/a.bin",
        "havasu_vc/new/part.py",
    ],
)
def test_what_is_not_understood_is_everything(path: str) -> None:
    assert affected([path, "docs/index.md"], SOURCES) == EVERYTHING


def test_changes_are_those_since_a_branch_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, git: Callable[..., str]
) -> None:
    git("init", "-q", cwd=tmp_path)
    for name in ("old", "gone", "edited"):
        (tmp_path / name).write_text(name)
    git("add", ".", cwd=tmp_path)
    git("commit", "-qm", "First", cwd=tmp_path)
    git("switch", "-qc", "topic", cwd=tmp_path)
    (tmp_path / "gone").rename(tmp_path / "moved")
    git("add", ".", cwd=tmp_path)
    git("commit", "-qam", "Second", cwd=tmp_path)
    git("commit", "-q", "--allow-empty", "-m", "main goes on", cwd=tmp_path)
    (tmp_path / "edited").write_text("otherwise")
    (tmp_path / "new").write_text("new")
    monkeypatch.setattr(changed, "ROOT", tmp_path)

    assert changed_files("main") == ["edited", "gone", "moved", "new"]


@pytest.mark.parametrize("part", sorted(HEIGHT))
@pytest.mark.few(1)
def test_tests_of_a_part_are_affected_by_it(part: str) -> None:
    modules = changed.modules_for_tests()
    own = {path for path in modules if path.startswith(f"tests/{part}/") and "/test_" in path}

    assert own <= set(affected([f"havasu_vc/{part}/any.py"], modules))
