"""A clone: git's own, set up for datasets, with the data files beside it.

git makes the repository; what hides the datasets' internals from the work tree is there
before git lays out files. A clone whose data was cut off is whole in git, and `fetch` goes
on where it stopped. A password in the URL is used and not kept: git is given the URL
without it, and learns the rest from its environment while the clone lasts.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from havasu_vc.engine.settings import Settings
from havasu_vc.errors import (
    DatasetNotFoundError,
    HavasuError,
    InvalidArgumentError,
    LockedError,
    StateError,
)
from havasu_vc.remotes.protocol import WantedFile, total_size
from havasu_vc.remotes.urls import has_secrets, hidden_secrets, is_token, without_passwords
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.sharing.answers import remote_words
from havasu_vc.sharing.data_places import take_data_url
from havasu_vc.sharing.data_remotes import bring_data, download, local_folder, remote_data
from havasu_vc.sharing.fetching import FetchResult, files_of_part, keep_part
from havasu_vc.sharing.requests import CloneRequest
from havasu_vc.store.command import run_git
from havasu_vc.store.disk import replace_file, reporting_storage_errors
from havasu_vc.store.preparation import hidden_patterns, install_hooks, prepare
from havasu_vc.store.refs import read_head
from havasu_vc.store.repository import GitRepository, make_kart
from havasu_vc.store.system import hold_file, open_folder

__all__ = ["UnfinishedClone", "being_cloned", "clone", "finish_clone", "folder_of"]


ORIGIN = "origin"


_TELLING = (
    "branch", "bare", "depth", "data_url", "on_demand", "part", "tables", "kart", "filter",
)  # fmt: skip
"""Options that tell a clone from another of the same URL."""


def folder_of(url: str, *, bare: bool = False) -> str:
    """Return the folder that git would clone a URL to.

    >>> folder_of("git@example.org:maps/parcels.git"), folder_of("/srv/roads/.git", bare=True)
    ('parcels', 'roads.git')
    """
    path = urlsplit(url).path if "://" in url else url.rpartition(":")[2]
    name = (
        path.rstrip("/")
        .removesuffix("/.git")
        .removesuffix("/.kart")
        .rpartition("/")[2]
        .removesuffix(".git")
    )
    if not name or name in (".", ".."):
        raise InvalidArgumentError(
            "the URL does not say what to call the folder", hints=("name one after the URL",)
        )
    return f"{name}.git" if bare else name


def clone(request: CloneRequest, settings: Settings) -> tuple[OpenRepo, FetchResult]:
    """Clone a repository and its data, or go on where the same clone was cut off."""
    if request.data_url is not None:
        from havasu_vc.remotes.protocol import check_data_url

        check_data_url(request.data_url)
    url, environment = _without_secret(request.url)
    asked = _asked(request, url)
    with being_cloned(request.folder, asked, bare=request.bare, kart=request.kart) as unfinished:
        if not unfinished.has_git:
            unfinished.begin()
            try:
                _clone_git(request, url, environment, unfinished.clone)
                if request.kart:
                    unfinished.make_kart()
            except HavasuError:
                unfinished.drop()
                raise
        unfinished.settle()
        repo = OpenRepo(GitRepository.open(request.folder), settings)
        fetched = _finished(repo, request, url, environment)
        if not request.tables:
            unfinished.finish()
        return repo, fetched


def finish_clone(repo: OpenRepo) -> None:
    """Note that the tables of a clone are made, with which it is all there."""
    git = repo.git
    UnfinishedClone(git.path, "", bare=git.is_bare, kart=git.is_kart).finish()


def _asked(request: CloneRequest, url: str) -> str:
    """Return a text that tells one clone from another; it goes into the clone."""
    asked = (url, *(getattr(request, name) for name in _TELLING))
    return hashlib.sha256(repr(asked).encode(errors="surrogateescape")).hexdigest()


def _finished(
    repo: OpenRepo, request: CloneRequest, url: str, environment: Mapping[str, str]
) -> FetchResult:
    """Do what is to be done when git has cloned."""
    folder, settings = request.folder, repo.settings
    if not repo.git.is_bare and read_head(repo.git).commit is None:
        _take_branch(repo)
    _lay_out_files(repo.git)
    if environment:
        settings.note("the password in the URL was not kept; git's credential helpers can keep it")
    config = repo.git.config
    if request.data_url is not None:
        take_data_url(repo, ORIGIN, request.data_url)
    if request.on_demand or request.filter is not None:
        config.set("havasu.data.fetch", "on-demand")
    prepare(repo.git)
    install_hooks(repo.git)
    try:
        files = _first_data(repo, request, environment)
    except DatasetNotFoundError:
        # As git does for a branch that is not there.
        shutil.rmtree(folder, ignore_errors=True)
        raise
    except HavasuError as error:
        error.hints = (
            *error.hints,
            f"the commits are in {folder}; `havasu-vc fetch` goes on there",
        )
        raise
    return FetchResult(hidden_secrets(url), (), len(files), total_size(files))


def _take_branch(repo: OpenRepo) -> None:
    """Stand on the branch that the remote has, where its own HEAD names none that is there.

    So it is of a bare repository whose first branch is called otherwise than git's setting
    `init.defaultBranch` was: git checks nothing out then, and a first push would begin another
    history.
    """
    git, settings = repo.git, repo.settings
    prefix = f"refs/remotes/{ORIGIN}/"
    lines = git.git("for-each-ref", "--format=%(refname)", prefix).lines
    branches = [line.removeprefix(prefix) for line in lines if line != f"{prefix}HEAD"]
    if not branches:
        settings.note("the repository that was cloned has no commit yet")
        return
    unborn = read_head(git).branch
    of_remote = f"the remote's HEAD is {unborn}, a branch that it has not"
    chosen = branches[0] if len(branches) == 1 else "main" if "main" in branches else None
    if chosen is None:
        known = ", ".join(branches[:5])
        settings.note(f"{of_remote}; `havasu-vc switch NAME` goes to one of its own: {known}")
        return
    git.git("branch", "--quiet", "--force", "--track", chosen, f"{ORIGIN}/{chosen}")
    git.git("symbolic-ref", "HEAD", f"refs/heads/{chosen}")
    settings.note(f"{of_remote}, so {chosen} is checked out")


def _lay_out_files(git: GitRepository) -> None:
    """Put the user's files into the work tree, which git was told to leave."""
    index = git.git_directory / "index"
    if git.is_bare or index.exists() or read_head(git).commit is None:
        return
    git.git("reset", "--quiet", "--hard")
    (git.git_directory / "ORIG_HEAD").unlink(missing_ok=True)


def _first_data(
    repo: OpenRepo, request: CloneRequest, environment: Mapping[str, str]
) -> Sequence[WantedFile]:
    """Bring the data that is to be here at once."""
    if request.part is not None:
        started = repo.head().commit is not None
        wanted = files_of_part(repo, request.part, "HEAD") if started else ()
        keep_part(repo, request.part)
        if not started:
            return ()
        return download(repo, remote_data(repo, ORIGIN, environment=environment), wanted)
    tips = sorted(set(repo.git.git("for-each-ref", "--format=%(objectname)").lines))
    if repo.on_demand or not tips:
        return ()
    return bring_data(repo, remote_data(repo, ORIGIN, environment=environment), tips)


def _without_secret(url: str) -> tuple[str, Mapping[str, str]]:
    """Return a URL without its password, and what tells git the password all the same."""
    parts = urlsplit(url) if "://" in url else None
    if parts is None or not has_secrets(url) or "@" not in parts.netloc:
        return url, {}
    name, _, host = parts.netloc.rpartition("@")
    shown = parts.username and not is_token(parts.username, parts.password)
    user = f"{name.partition(':')[0]}@" if shown else ""
    count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    return parts._replace(netloc=f"{user}{host}").geturl(), {
        "GIT_CONFIG_COUNT": str(count + 1),
        f"GIT_CONFIG_KEY_{count}": f"url.{parts.scheme}://{parts.netloc}/.insteadOf",
        f"GIT_CONFIG_VALUE_{count}": f"{parts.scheme}://{user}{host}/",
    }


def _clone_git(
    request: CloneRequest, url: str, environment: Mapping[str, str], folder: Path
) -> None:
    """Let git clone; what it says on failure is put in one line, without a password."""
    base = request.base or Path.cwd()
    local = local_folder(url, base)
    if local is not None:
        # git passes over `--depth` and `--filter` for a path, and takes them for a URL.
        place = local.resolve()
        all_of_it = request.depth is None and request.filter is None
        url = str(place) if all_of_it else place.as_uri()
    template = Path(tempfile.mkdtemp(prefix="havasu-vc-template-"))
    try:
        (template / "info").mkdir()
        hidden = "".join(f"{pattern}\n" for pattern in hidden_patterns())
        (template / "info" / "sparse-checkout").write_text("/*\n" + hidden)
        arguments = [
            "clone",
            "--quiet",
            "--no-checkout",
            f"--template={template}",
            "--origin",
            ORIGIN,
        ]
        if request.bare:
            arguments.append("--bare")
        elif not request.kart:
            # What `prepare` would set; each setting by itself is another process.
            arguments += ["-c", "core.sparseCheckout=true", "-c", "core.sparseCheckoutCone=false"]
        if request.branch is not None:
            arguments += ["--branch", request.branch]
        if request.filter is not None:
            arguments.append(f"--filter={request.filter}")
        if request.bundle_uri is not None:
            arguments.append(f"--bundle-uri={request.bundle_uri}")
        if request.depth is not None:
            arguments += ["--depth", str(request.depth), "--no-single-branch"]
        answer = run_git(
            [*arguments, "--", url, str(folder.absolute())],
            folder=base,
            environment=environment,
            check=False,
        )
    finally:
        shutil.rmtree(template, ignore_errors=True)
    if answer.code:
        message = without_passwords(answer.message)
        raise StateError(f"git says: {message}", hints=remote_words(answer))


# A clone that is being made, so that one that was cut off goes on when it is asked for again.
#
# git clones into a folder of ours inside of the one that was asked for. What it made is moved up
# when it is whole, with a mark in the git directory that says what was asked for, and the mark
# goes when everything is done. The folder is locked meanwhile, by the system.
#
#     <folder>/.git.cloning/clone     what git makes
#     <folder>/.git.cloning/whole     git has made it
#     <git directory>/havasu/cloning  data and tables are still to come

PART = ".git.cloning"
_MARK = Path("havasu", "cloning")


class UnfinishedClone:
    """A folder in which a clone is made, or was begun."""

    def __init__(self, folder: Path, wanted: str, *, bare: bool, kart: bool = False) -> None:
        """Make a clone in a folder that is there; `wanted` says which."""
        name = "." if bare else ".kart" if kart else ".git"
        self.folder = folder
        self.git_directory = folder / name
        self.clone = folder / PART / "clone"
        """Where git is to make it."""
        self._bare = bare
        self._wanted = wanted
        self._inner = self.clone / name

    @property
    def has_git(self) -> bool:
        """Whether git has done its part."""
        return (self.folder / PART / "whole").exists() or self._mark.exists()

    @property
    def _mark(self) -> Path:
        return self.git_directory / _MARK

    def require_mine(self) -> None:
        """Raise unless the folder is empty, or a clone as this one was begun in it."""
        names = set(os.listdir(self.folder))
        if not names or (names == {PART} and not self.has_git):
            return
        for mark in (self._mark, self._inner / _MARK):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if mark.read_text("utf-8", "replace") == self._wanted:
                    return
                raise InvalidArgumentError(
                    f"{self.folder} is there already: another clone of it was cut off",
                    hints=("`havasu-vc fetch` and `havasu-vc checkout` go on there",),
                )
        raise InvalidArgumentError(f"{self.folder} is there already, and is not an empty folder")

    def begin(self) -> None:
        """Forget what another git had begun."""
        with reporting_storage_errors(self.folder):
            shutil.rmtree(self.folder / PART, ignore_errors=True)
            self.clone.parent.mkdir(exist_ok=True)

    def make_kart(self) -> None:
        """Make of what git has made a repository that Kart opens."""
        with reporting_storage_errors(self.folder):
            if not self._bare:
                (self.clone / ".git").rename(self._inner)
                (self._inner / "info" / "sparse-checkout").unlink(missing_ok=True)
            make_kart(self.clone, self._inner, bare=self._bare, name=self.folder.resolve().name)

    def settle(self) -> None:
        """Put what git has made, when it is whole, where it belongs."""
        part = self.folder / PART
        with reporting_storage_errors(self.folder):
            if not self.has_git:
                replace_file(self._inner / _MARK, self._wanted.encode())
                replace_file(part / "whole", b"")
            if self.clone.is_dir():
                # Without HEAD, which comes last, it is no repository yet.
                for name in sorted(os.listdir(self.clone), key=lambda name: name == "HEAD"):
                    os.rename(self.clone / name, self.folder / name)
            if part.exists():
                # Were it to stay, it would be a file of the user's for git, and in the way.
                shutil.rmtree(part)

    def drop(self) -> None:
        """Leave nothing of it."""
        shutil.rmtree(self.folder / PART, ignore_errors=True)

    def finish(self) -> None:
        """Note that everything is done."""
        self._mark.unlink(missing_ok=True)


@contextlib.contextmanager
def being_cloned(
    folder: Path, wanted: str, *, bare: bool, kart: bool = False
) -> Iterator[UnfinishedClone]:
    """Hold a folder, which is made if need be, while a clone is made in it."""
    if folder.exists() and not folder.is_dir():
        raise InvalidArgumentError(f"{folder} is there already, and is not an empty folder")
    made = not folder.exists()
    with reporting_storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        number = open_folder(folder)
    try:
        try:
            if number is not None:
                hold_file(number)
        except BlockingIOError as error:
            raise LockedError(f"another process is cloning into {folder}") from error
        unfinished = UnfinishedClone(folder, wanted, bare=bare, kart=kart)
        unfinished.require_mine()
        yield unfinished
    finally:
        if number is not None:
            os.close(number)
        if made:
            with contextlib.suppress(OSError):
                folder.rmdir()  # works when nothing came of it
