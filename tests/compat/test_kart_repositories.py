"""Repositories that Kart made: read, written again and edited, with the ids that Kart gave."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.cli.main import cli, run
from havasu_vc.datasets.kart.build import NewKartDataset
from havasu_vc.datasets.kart.view import KartDataset
from havasu_vc.errors import StateError
from havasu_vc.formats.kart.columns import (
    columns_of_schema,
    format_columns,
    format_legend,
    format_wkt,
    legend_name,
    legend_of,
)
from havasu_vc.formats.kart.paths import LEGACY, format_path_structure
from havasu_vc.model.task import run_task
from havasu_vc.store.command import GitResult
from havasu_vc.store.objects import Draft
from havasu_vc.store.repository import GitRepository
from havasu_vc.tables.table import read_table
from havasu_vc.writers import WriterOptions, writer_named
from tests.compat.kart import EXPECTED, NAMES, git, needs_data, unpacked
from tests.repo.checkouts import rows_of
from tests.repo.tables import BY_ID, points, write
from tests.support.templates import empty_repo

pytestmark = [pytest.mark.few(3), needs_data]


def views(place: Path) -> list[KartDataset]:
    """Return every dataset of every commit."""
    repo = Repo.open(place)
    found = []
    for commit in git(place, "rev-list", "--all").split():
        for folder in repo.folders(repo.resolve(commit)).values():
            view = repo.opened.view(folder, commit)
            assert isinstance(view, KartDataset)
            found.append(view)
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.rule(
    "KART-1",
    "KART-2",
    "KART-24",
    "KART-27",
    "KART-28",
    "KART-29",
    "KART-30",
    "KART-31",
    "KART-33",
    "KART-34",
    "KART-36",
    "KART-59",
    "KART-60",
    "KART-61",
    "KART-63",
    "KART-64",
    "KART-65",
    "KART-66",
    "KART-67",
    "KART-68",
    "KART-69",
    "KART-80",
    "KART-91",
)
def test_everything_written_again_is_what_kart_wrote(name: str, tmp_path: Path) -> None:
    place = unpacked(name, tmp_path)
    for view in views(place):
        document = view.folder.read("meta/schema.json") or b""
        if view.marker == ".table-dataset":
            assert format_columns(columns_of_schema(view.schema)) == document
            structure = view.folder.read("meta/path-structure.json")
            assert format_path_structure(view.structure) == structure
            assert {n: format_wkt(wkt).decode() for n, wkt in view.crs.items()} == view.crs
        else:
            assert view.structure == LEGACY
        for legend, columns in view.legends.items():
            assert format_legend(columns) == view.folder.read(f"meta/legend/{legend}")
            assert legend_name(format_legend(columns)) == legend
        assert legend_name(format_legend(legend_of(view.schema))) in view.legends
        if len(view.legends) > 1:
            continue  # rows keep the legend that they were written with
        draft = Draft(view.folder.source)
        new = NewKartDataset(view.path, view.schema, draft, structure=view.structure)
        new.write(batch for task in view.scan() for batch in run_task(task))
        assert new.finish().blobs["feature"].id == view.features  # type: ignore[union-attr]


DIFFS = [case for case in sorted(EXPECTED.glob("*")) if len(case.name.split(".")[1]) == 8]


def archive_of(case: str) -> str:
    name, commit, _ = case.split(".", 2)
    of_conflicts = name == "inserts" or (name == "points" and commit != "15827255")
    return f"conflicts/{name}" if of_conflicts else name


def test_there_are_cases() -> None:
    assert len(DIFFS) > 40


def with_items_sorted(text: str) -> str:
    """Return a diff as JSON with the meta items of each dataset in order, and all else as it is.

    Of a dataset that comes, Kart prints them in the order of a set of Python's: another one
    in each run, unless `PYTHONHASHSEED` is set. With a seed that has them in order it prints
    what this returns.
    """
    document = json.loads(text)
    assert json.dumps(document, indent=2) + "\n" == text
    for dataset in document["kart.diff/v1+hexwkb"].values():
        dataset["meta"] = dict(sorted(dataset["meta"].items()))
    return json.dumps(document, indent=2) + "\n"


@pytest.mark.parametrize("case", DIFFS, ids=lambda case: case.name)
@pytest.mark.rule("KART-68")
def test_diffs_are_printed_as_kart_prints_them(
    case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, commit, output_format = case.name.split(".", 2)
    place = unpacked(archive_of(case.name), tmp_path)
    parents = git(place, "rev-list", "--parents", "-n1", commit).split()[1:]
    monkeypatch.chdir(place)
    revisions = f"{parents[0] if parents else '[EMPTY]'}...{commit}"
    assert run(cli, ["diff", revisions, "-o", output_format]) == 0
    found, wanted = capsys.readouterr().out, case.read_text()
    if not parents and output_format == "json":
        wanted = with_items_sorted(wanted)
    assert found == wanted


@pytest.mark.parametrize("name", ["points", "inserts"])
def test_conflicts_are_printed_as_kart_prints_them(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = unpacked(f"conflicts/{name}", tmp_path)
    monkeypatch.chdir(place)
    git(place, "symbolic-ref", "HEAD", "refs/heads/ours_branch")
    for arguments, form in (
        (["merge", "theirs_branch", "-o", "json"], "merge.json"),
        (["conflicts", "-o", "json"], "conflicts.json"),
        (["conflicts", "-o", "geojson"], "conflicts.geojson"),
    ):
        assert run(cli, arguments) == 0
        assert capsys.readouterr().out == (EXPECTED / f"{name}.{form}").read_text()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["editing", "s2", "points", "large-geometry", "s4", "inserts"])
@pytest.mark.rule("KART-4", "KART-5", "KART-24", "KART-28", "KART-41", "KART-43")
def test_patches_of_kart_s_commits_give_kart_s_trees(name: str, tmp_path: Path) -> None:
    archive = "conflicts/inserts" if name == "inserts" else name
    place = unpacked(archive, tmp_path)
    repo = Repo.open(place)
    attached = "metadata.xml"
    for line in git(place, "rev-list", "--parents", "--all").splitlines():
        commit, *parents = line.split()
        if len(parents) > 1:
            continue
        branch = f"refs/heads/of-{commit}"
        git(place, "symbolic-ref", "HEAD", branch)
        if parents:
            git(place, "update-ref", branch, parents[0])
        if not parents and attached in git(place, "ls-tree", "-r", "--name-only", commit):
            continue  # files beside a dataset are in no patch
        patch = _patch(Repo.open(place), commit)
        repo = Repo.open(place)
        repo.apply_patch(patch)
        wanted = git(place, "rev-parse", f"{commit}^{{tree}}")
        assert git(place, "rev-parse", "HEAD^{tree}") == wanted


def _patch(repo: Repo, commit: str) -> bytes:
    info, diffs = repo.create_patch(commit)
    out = io.StringIO()
    writer_named("patch")(diffs, out, WriterOptions(commit=info))
    return out.getvalue().encode()


@pytest.mark.thorough
def test_an_upgrade_that_was_cut_off_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = unpacked("v2/points", tmp_path)
    git(old, "branch", "another", "HEAD^")
    git(old, "branch", "zebra", "HEAD^")
    told: list[str] = []
    real = GitRepository.git

    def cut_off(itself: GitRepository, *arguments: str, **more: Any) -> GitResult:
        if arguments[0] == "update-ref" and len(told) == 2:
            raise KeyboardInterrupt
        if arguments[0] == "update-ref":
            told.append(arguments[1])
        return real(itself, *arguments, **more)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(GitRepository, "git", cut_off)
        Repo.open(old).upgrade(tmp_path / "new")
    assert len(told) == 2

    new = Repo.open(old).upgrade(tmp_path / "new")
    assert sorted(branch.name for branch in new.branches()) == ["another", "main", "zebra"]
    assert new.head().commit is not None


@pytest.mark.rule("KART-97")
def test_upgrading_gives_the_commits_that_kart_upgrade_gives(tmp_path: Path) -> None:
    old, wanted = unpacked("v2/points", tmp_path), unpacked("points", tmp_path)
    assert Repo.open(old).dataset("nz_pa_points_topo_150k").rows == 2143
    Repo.open(old).upgrade(tmp_path / "new")
    assert git(tmp_path / "new", "rev-parse", "HEAD") == git(wanted, "rev-parse", "HEAD")


@pytest.mark.parametrize("name", ["s2", "string-pks", "polygons", "table", "empty-geometry"])
@pytest.mark.few(1)
def test_there_and_back_is_the_same_tree(name: str, tmp_path: Path) -> None:
    place = unpacked(name, tmp_path)
    repo = Repo.open(place)
    path = repo.datasets()[0]
    before = git(place, "rev-parse", "HEAD^{tree}")
    repo.convert(path, "havasu")
    assert repo.dataset(path).kind == "havasu"
    (diff,) = repo.diff("HEAD^...HEAD", [path])
    assert [len(batch) for batch in diff.changes] == []
    repo.convert(path, "kart")
    assert git(place, "rev-parse", "HEAD^{tree}") == before


def test_a_merge_that_kart_stopped_is_told(tmp_path: Path) -> None:
    place = unpacked("conflicts/points", tmp_path)
    for name, text in (("MERGED_INDEX", ""), ("MERGE_BRANCH", "theirs_branch\n")):
        (place / ".kart" / name).write_text(text)
    repo = Repo.open(place)
    assert "cannot be read: its files are damaged" in repo.status().problems[0]
    with pytest.raises(StateError, match="a merge of Kart's, of theirs_branch, is half done"):
        repo.merge("ancestor_branch")


@pytest.mark.rule("KART-4", "KART-32")
def test_the_locked_index_is_left_alone(tmp_path: Path) -> None:
    place = unpacked("s2", tmp_path)
    index = (place / ".kart" / "index").read_bytes()
    repo = Repo.open(place)
    repo.set_meta("pts", {"title": "Points", "tags.json": ["a", "b"]})
    assert (place / ".kart" / "index").read_bytes() == index
    assert repo.get_meta("pts")["tags.json"] == ["a", "b"]
    made = empty_repo(tmp_path / "made", kart=True)
    assert (tmp_path / "made" / ".kart" / "index").read_bytes() == index
    assert made.git.is_kart


def test_what_a_partial_clone_lacks_is_missed_when_it_is_needed(tmp_path: Path) -> None:
    place = unpacked("s2", tmp_path)
    repo = Repo.open(place)
    view = repo.dataset("pts")
    blob = git(place, "rev-parse", "HEAD:pts/.table-dataset/feature/A/A/A/A/kQI=")
    (place / ".kart" / "objects" / blob[:2] / blob[2:]).unlink()
    assert repo.row("pts", 1)["fid"] == 1
    assert view.rows == 5
    assert not list(repo.diff("HEAD...HEAD"))
    with pytest.raises(LookupError, match="1 rows or folders of rows are not in this"):
        repo.row("pts", 2)


@pytest.mark.thorough
def test_a_repository_in_v2_is_read_checked_out_and_edited(tmp_path: Path) -> None:
    place = unpacked("v2/points", tmp_path)
    git(place, "config", "havasu.workspace.path", str(tmp_path / "tables"))
    repo = Repo.open(place)
    (path,) = repo.datasets()
    upgraded = repo.upgrade(tmp_path / "new").table(path).to_arrow().sort_by("fid")
    assert repo.table(path).to_arrow().sort_by("fid").equals(upgraded)
    assert [sum(map(len, diff.changes)) for diff in repo.diff("HEAD^...HEAD")] == [5]
    assert repo.workspace.check_out().changed == (path,)
    assert repo.status().problems == ()
    table = read_table(repo.workspace.root / path)
    assert len(rows_of(table)) == upgraded.num_rows == 2143
    repo.write(path, pa.table({"fid": [1], "name": ["eins"]}))
    # What makes it V2 stays, so Kart opens the commit as one of V2.
    names = git(place, "ls-tree", "--name-only", "HEAD").split()
    assert names == [".sno.repository.version", path]
    assert list(repo.fsck(full=True)) == []
    repo.workspace.check_out()
    assert {row["name"] for row in rows_of(read_table(repo.workspace.root / path))} >= {"eins"}
    with pytest.raises(StateError, match="V2 holds no datasets of V3"):
        repo.import_(write(tmp_path / "points.parquet", points(3)), options=BY_ID)
