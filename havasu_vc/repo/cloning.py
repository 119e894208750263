"""A clone: git's own, set up for datasets, with the data files beside it.

git makes the repository; what hides the datasets' internals from the work tree is there
before git lays out files. A clone whose data was cut off is whole in git, and `fetch` goes
on where it stopped.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from havasu_vc.errors import InvalidArgumentError, StateError
from havasu_vc.model.names import HAVASU_MARKER, TABLE_MARKER
from havasu_vc.remotes.protocol import total_size
from havasu_vc.remotes.urls import hidden_secrets
from havasu_vc.repo.hooks import install_hooks
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.remote_data import bring_data, local_folder, remote_data
from havasu_vc.repo.settings import Settings
from havasu_vc.repo.sharing import FetchResult
from havasu_vc.store.command import run_git
from havasu_vc.store.preparation import prepare
from havasu_vc.store.repository import GitRepository

__all__ = ["CloneRequest", "clone"]

ORIGIN = "origin"


@dataclass(frozen=True, slots=True)
class CloneRequest:
    """What to clone, and how."""

    url: str
    """Whatever git takes."""
    folder: Path
    """Where to; must not be there, or be empty."""
    branch: str | None = None
    """The branch to be on; None for the remote's own."""
    bare: bool = False
    """Whether to do without a work tree."""
    depth: int | None = None
    """How many commits of history to bring; None for all."""
    data_url: str | None = None
    """Where the data is, if not with the remote."""
    on_demand: bool = False
    """Whether data files come only when something reads them."""


def folder_of(url: str) -> str:
    """Return the folder that git would clone a URL to.

    >>> folder_of("git@example.org:maps/parcels.git"), folder_of("/srv/roads/.git")
    ('parcels', 'roads')
    """
    path = urlsplit(url).path if "://" in url else url.rpartition(":")[2]
    name = path.rstrip("/").removesuffix("/.git").rpartition("/")[2].removesuffix(".git")
    if not name or name in (".", ".."):
        raise InvalidArgumentError(
            "the URL does not say what to call the folder", hints=("name one after the URL",)
        )
    return name


def clone(request: CloneRequest, settings: Settings) -> tuple[OpenRepo, FetchResult]:
    """Clone a repository and its data."""
    folder = request.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidArgumentError(f"{folder} is there already, and is not an empty folder")
    repo = OpenRepo(_cloned(request), settings)
    config = repo.git.config
    if request.data_url is not None:
        config.set("havasu.data.url", request.data_url)
    if request.on_demand:
        config.set("havasu.data.fetch", "on-demand")
    prepare(repo.git)
    install_hooks(repo.git)
    files = []
    if not request.on_demand:
        tips = repo.git.git("for-each-ref", "--format=%(objectname)").text.split()
        files = bring_data(repo, remote_data(repo, ORIGIN), sorted(set(tips)))
    return repo, FetchResult(hidden_secrets(request.url), (), len(files), total_size(files))


def _cloned(request: CloneRequest) -> GitRepository:
    """Let git clone; what it says on failure is put in one line, without a password."""
    local = local_folder(request.url)
    url = str(local.resolve()) if local is not None else request.url
    template = Path(tempfile.mkdtemp(prefix="havasu-vc-template-"))
    try:
        (template / "info").mkdir()
        hidden = "".join(f"!**/{marker}/\n" for marker in (HAVASU_MARKER, TABLE_MARKER))
        (template / "info" / "sparse-checkout").write_text("/*\n" + hidden)
        arguments = ["clone", "--quiet", f"--template={template}", "--origin", ORIGIN]
        if not request.bare:
            arguments += ["-c", "core.sparseCheckout=true", "-c", "core.sparseCheckoutCone=false"]
        else:
            arguments.append("--bare")
        if request.branch is not None:
            arguments += ["--branch", request.branch]
        if request.depth is not None:
            arguments += ["--depth", str(request.depth), "--no-single-branch"]
        answer = run_git(
            [*arguments, "--", url, str(request.folder.absolute())],
            folder=Path.cwd(),
            check=False,
        )
    finally:
        shutil.rmtree(template, ignore_errors=True)
    if answer.code:
        message = answer.message.replace(request.url, hidden_secrets(request.url))
        raise StateError(f"git says: {message}")
    return GitRepository.open(request.folder)
