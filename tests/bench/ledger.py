"""Cases: what the markers of many commits cost, and how rarely git stops because of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from tests.bench.cases import Figure, case, counted
from tests.bench.process import Run, repeated, run
from tests.bench.scratch import Scratch, Variant, sizes_of


@case("markers")
def markers(scratch: Scratch) -> Iterator[Figure]:
    """Where an epoch has many markers: looking whether all is sound, `git status`, a commit."""
    sizes = scratch.sizes
    variant = Variant("points", sizes.usual)
    folder = scratch.patches(variant, sizes.marking + sizes.runs + 1, sizes.edits)
    repository = scratch.copy(scratch.repository(variant))
    some = min(10, sizes.marking)
    scratch.job("apply_all", repository, folder, "0", str(some))
    sound = repeated(lambda _: scratch.job("check_sound", repository), sizes.runs)
    name = f"looking whether {counted(some * sizes.edits)} markers are sound"
    yield Figure(f"{name}, for the first time", float(sound.report["seconds"]) * 1e3, "ms CPU")

    def after_a_commit(_: int) -> Run:
        copy = scratch.copy(repository)
        done = scratch.job("check_sound", copy, "known")
        scratch.remove(copy)
        return done

    sound = repeated(after_a_commit, sizes.runs)
    yield Figure(f"{name}, after a commit", float(sound.report["seconds"]) * 1e3, "ms CPU", 15)
    scratch.job("apply_all", repository, folder, str(some), str(sizes.marking))
    among = f"{counted(sizes.marking * sizes.edits)} markers"
    git = ["git", "-C", str(repository), "status"]
    status = repeated(lambda _: run(git, scratch.environment), sizes.runs)
    yield Figure(f"git status, {among}", status.wall, "s", 0.3, f"{status.cpu:.2f} s CPU")

    def commit(number: int) -> Run:
        copy = scratch.copy(repository)
        patch = folder / f"patch-{sizes.marking + number:04}.json"
        done = scratch.havasu("-C", copy, "apply", patch)
        scratch.remove(copy)
        return done

    done = repeated(commit, sizes.runs)
    name = f"commit {sizes.edits:,} edits (patch), {counted(variant.rows)} points, {among}"
    yield Figure(name, done.wall, "s", 0.45, f"{done.cpu:.2f} s CPU, {done.memory:.0f} MB")
    scratch.remove(repository)


@case("packed")
def packed(scratch: Scratch) -> Iterator[Figure]:
    """What many commits add to git once it has packed them; their data is `added`'s."""
    sizes = scratch.sizes
    variant = Variant("points", sizes.usual)
    folder = scratch.patches(variant, sizes.commits, sizes.edits)
    repository = scratch.copy(scratch.repository(variant))
    before = _in_git(repository)
    scratch.job("apply_all", repository, folder)
    scratch.havasu("-C", repository, "gc")
    each = (_in_git(repository) - before) / 1e3 / sizes.commits
    index = (repository / ".git" / "index").stat().st_size / 1e6
    name = f"added to git by each of {sizes.commits} commits of {sizes.edits:,} edits, after gc"
    yield Figure(name, each, "kB", 60, f"beside its index of {index:.1f} MB")
    scratch.remove(repository)


def _in_git(repository: Path) -> int:
    return sizes_of(repository)["git"] - (repository / ".git" / "index").stat().st_size


@case("planning")
def planning(scratch: Scratch) -> Iterator[Figure]:
    """After many tiny commits: which files a read takes, and a commit of 1,000 edits."""
    sizes = scratch.sizes
    variant = Variant("points", sizes.usual)
    pristine = scratch.repository(variant)
    repository = scratch.copy(pristine)
    scratch.job("apply_all", repository, scratch.patches(variant, sizes.tiny_commits, 10))
    plan = repeated(lambda _: scratch.job("plan", repository, pristine), sizes.runs)
    after = f"after {sizes.tiny_commits:,} commits of 10 edits"
    seconds, files = float(plan.report["seconds"]), plan.report["files"]
    yield Figure(f"planning a read {after}", seconds * 1e3, "ms CPU", 5, f"{files} files")
    folder = scratch.upserts(variant, sizes.runs + 1)
    done = repeated(lambda n: scratch.job("upsert", repository, folder[n]), sizes.runs)
    name = f"upsert {sizes.edits:,} rows, {counted(variant.rows)} points, {after}"
    yield Figure(name, float(done.report["seconds"]), "s", 0.45)
    scratch.remove(repository)


@case("false-conflicts")
def false_conflicts(scratch: Scratch) -> Iterator[Figure]:
    """Branches that edit other rows each, put together two by two by git alone."""
    sizes = scratch.sizes
    variant = Variant("points", sizes.usual)
    patches = sorted(scratch.patches(variant, sizes.branches, sizes.edits).iterdir())
    repository = scratch.copy(scratch.repository(variant))
    names = [f"branch-{number}" for number in range(len(patches))]
    start = _git(scratch, repository, "symbolic-ref", "--short", "HEAD").strip()
    for name, patch in zip(names, patches, strict=True):
        scratch.havasu("-C", repository, "switch", "-c", name, start)
        scratch.havasu("-C", repository, "apply", patch)
    pairs = list(combinations(names, 2))
    stopped = sum(_stops(scratch, repository, pair) for pair in pairs)
    name = f"merges of 2 × {sizes.edits:,} edits of other rows at which git stops"
    note = f"{stopped} of {len(pairs):,}, {counted(variant.rows)} points"
    yield Figure(name, 100 * stopped / len(pairs), "%", 0.1, note)
    scratch.remove(repository)


def _stops(scratch: Scratch, repository: Path, pair: Sequence[str]) -> bool:
    found = subprocess.run(
        ["git", "-C", repository, "merge-tree", "--write-tree", *pair],
        env=scratch.environment,
        stdout=subprocess.DEVNULL,
    )
    if found.returncode not in (0, 1):
        raise ValueError(f"git merge-tree exited with {found.returncode}")
    return found.returncode == 1


def _git(scratch: Scratch, repository: Path, *arguments: str) -> str:
    return run(["git", "-C", str(repository), *arguments], scratch.environment).output
