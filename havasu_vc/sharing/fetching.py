"""Fetch and pull: refs by git itself, then the data files that they name.

git does what git can do: any URL, credentials, hooks, refspecs and settings that it knows
work here as they do there. A fetch that was cut off goes on where it stopped when it is
done again.

A part of a repository's data: some datasets, or the files whose rows may lie in a box.

What a clone was told to take is kept in git's configuration, so that later fetches take
the same part of what is new:

    havasu.data.fetch = on-demand     whatever is not here comes when something reads it
    havasu.data.dataset = PATH        as often as there are datasets; none for all
    havasu.data.bbox = W,S,E,N        in the coordinates of each dataset
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from havasu_vc.datasets.havasu.entries import is_outside
from havasu_vc.datasets.kinds import is_in_files, require_files
from havasu_vc.errors import DatasetNotFoundError, NoBranchError
from havasu_vc.exchange.boxes import Box, parse_box
from havasu_vc.records import dataclass
from havasu_vc.remotes.protocol import WantedFile, total_size
from havasu_vc.remotes.urls import hidden_secrets, without_passwords
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.setting_up import set_up
from havasu_vc.repo.soundness import defect
from havasu_vc.sharing.answers import refusal
from havasu_vc.sharing.data_places import known_data_url
from havasu_vc.sharing.data_remotes import (
    bring_data,
    default_remote,
    download,
    remote_address,
    remote_data,
)
from havasu_vc.sharing.requests import DataRequest, FetchRequest, Part
from havasu_vc.store.command import GitResult
from havasu_vc.store.locks import without_git_gc

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import DatasetInFiles
    from havasu_vc.formats.havasu.entry import Entry
    from havasu_vc.store.trees import DatasetFolder

__all__ = [
    "Box",
    "FetchResult",
    "fetch",
    "fetch_data",
    "files_of_part",
    "keep_part",
    "kept_part",
    "parse_box",
    "remotes",
    "upstream_of",
]

_DEEPER = ("--depth", "--deepen", "--unshallow")
_FETCHED = re.compile(r"^([0-9a-f]{40})\t", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The outcome of a fetch."""

    remote: str
    """From where."""
    refs: tuple[str, ...] = ()
    """The words of git on each ref that moved."""
    files: int = 0
    """Data files that came."""
    size: int = 0
    """Their bytes."""


def fetch(repo: OpenRepo, request: FetchRequest) -> FetchResult:
    """Fetch refs, then the data that they name.

    In a clone of a part, what the part has of the branch that is followed comes; the rest
    does when something reads it.
    """
    set_up(repo)
    name = request.remote or default_remote(repo)
    shown = hidden_secrets(remote_address(repo, name))
    options = ("--no-auto-maintenance", *request.options)
    # Nothing names what comes until all has come, and a gc of git would take it away until then.
    with without_git_gc(repo.git.common_directory):
        answer = repo.git.git("fetch", *options, "--", name, *request.refspecs, check=False)
    if answer.code:
        raise refusal(answer, shown)
    repo.git.git("maintenance", "run", "--auto", "--quiet", check=False)
    files: Sequence[WantedFile] = ()
    tips = _fetched(repo, name)
    if request.data and tips:
        if not repo.on_demand:
            # Older commits may come below those that were here with all their data.
            deeper = any(option.startswith(_DEEPER) for option in request.options)
            files = bring_data(repo, remote_data(repo, name), tips, thorough=deeper)
        elif (part := kept_part(repo)) is not None:
            wanted = files_of_part(repo, part, _followed(repo))
            files = download(repo, remote_data(repo, name), wanted)
        set_up(repo)  # the first datasets of a repository without commits came
    return FetchResult(shown, _moved(answer), len(files), total_size(files))


def fetch_data(repo: OpenRepo, request: DataRequest) -> FetchResult:
    """Bring every data file that commits here name, or what a part of one revision has."""
    set_up(repo)
    name = request.remote or default_remote(repo)
    place = remote_data(repo, name)
    files: Sequence[WantedFile]
    if request.part is None:
        tips = repo.git.git("for-each-ref", "--format=%(objectname)").lines
        files = bring_data(repo, place, sorted(set(tips)), thorough=True, verify=request.verify)
        repo.storage.files.show_all_to_lfs()  # `git lfs prune` removes what shows them
    else:
        wanted = files_of_part(repo, request.part, request.revision)
        files = download(repo, place, wanted, verify=request.verify)
    set_up(repo)
    return FetchResult(place.name, (), len(files), total_size(files))


def remotes(repo: OpenRepo) -> tuple[tuple[str, str, str | None], ...]:
    """Return each remote's name, URL, and where its data is if that is elsewhere."""
    config = repo.git.config
    return tuple(
        (name, config.get(f"remote.{name}.url") or "", known_data_url(repo, name))
        for name in repo.git.git("remote").lines
    )


def upstream_of(repo: OpenRepo, remote: str | None = None) -> str:
    """Return the remote branch that the current one follows."""
    branch = repo.head_branch
    if branch is None:
        raise NoBranchError("HEAD is on no branch", hints=("`havasu-vc switch BRANCH` first",))
    followed = repo.git.config.get(f"branch.{branch}.remote")
    if remote is not None and followed not in (None, remote):
        raise NoBranchError(
            f"branch {branch!r} follows one of {followed!r}, not of {remote!r}",
            hints=(f"`havasu-vc pull {shlex.quote(remote)} BRANCH`",),
        )
    answer = repo.git.git(
        "rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}", check=False
    )
    if answer.code:
        raise NoBranchError(
            f"branch {branch!r} follows no other branch",
            hints=(
                f"`havasu-vc pull REMOTE {shlex.quote(branch)}`",
                f"`havasu-vc push -u REMOTE {shlex.quote(branch)}`",
            ),
        )
    return answer.text


def _followed(repo: OpenRepo) -> str:
    try:
        return upstream_of(repo)
    except NoBranchError:
        return "HEAD"


def _fetched(repo: OpenRepo, name: str) -> list[str]:
    """Return what the refs that were fetched last are at, moved or not."""
    path = repo.git.git_directory / "FETCH_HEAD"
    text = path.read_text("utf-8", "replace") if path.exists() else ""
    found = set(_FETCHED.findall(text))
    if not found:
        # git does not say so when it could not write that file.
        seen = ("for-each-ref", "--format=%(objectname)", f"refs/remotes/{name}/")
        found = set(repo.git.git(*seen).lines)
    return sorted(found)


def _moved(answer: GitResult) -> tuple[str, ...]:
    lines = (without_passwords(line.strip()) for line in answer.error_lines)
    return tuple(line for line in lines if "->" in line)


def kept_part(repo: OpenRepo) -> Part | None:
    """Return the part that this clone takes of all that comes; None if it takes nothing."""
    config = repo.git.config
    datasets, box = config.all("havasu.data.dataset"), config.get("havasu.data.bbox")
    if not datasets and box is None:
        return None
    return Part(datasets, None if box is None else parse_box(box))


def keep_part(repo: OpenRepo, part: Part) -> None:
    """Take this part of all that comes from now on."""
    repo.git.config.set("havasu.data.fetch", "on-demand")
    for path in part.datasets:
        repo.git.git("config", "--local", "--add", "havasu.data.dataset", path)
    if part.box is not None:
        repo.git.config.set("havasu.data.bbox", ",".join(f"{edge:.17g}" for edge in part.box))


def files_of_part(repo: OpenRepo, part: Part, revision: str) -> Sequence[WantedFile]:
    """Return the data files that a part of a revision has."""
    found = repo.revision(revision)
    folders = repo.folders(found)
    missing = [path for path in part.datasets if path.strip("/") not in folders]
    if missing:
        raise DatasetNotFoundError(missing[0], revision)
    chosen = {path.strip("/") for path in part.datasets} or set(folders)
    files = {
        WantedFile(entry.file, entry.size)
        for path, folder in folders.items()
        if path in chosen and is_in_files(folder.marker) and _is_sound(repo, folder, revision)
        for entry in _entries(require_files(repo.view(folder, revision)), part.box)
    }
    return sorted(files)


def _is_sound(repo: OpenRepo, folder: DatasetFolder, revision: str) -> bool:
    """Whether the entries of a dataset can be told; it is named where they cannot."""
    broken = defect(repo, folder, revision)
    if broken is not None:
        repo.tell(folder.path, broken.message)
    return broken is None


def _entries(view: DatasetInFiles, box: Box | None) -> Iterator[Entry]:
    for entry in view.data_entries:
        if entry.location is None and (box is None or not is_outside(entry, box, view.schema)):
            yield entry
            yield from view.deletes.get(entry.file, ())
