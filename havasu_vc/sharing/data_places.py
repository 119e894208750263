"""Where the data of a remote is, if not with the remote: what was said, and by whom.

    remote.<name>.havasuData      git's settings, of one remote
    havasu.data.url               git's settings, of all
    .havasu/config.toml           commits of the repository

What a user set wins. What commits say is used where the user allows the place, since commits
come from strangers. A fetch takes what the remote's own branch says, for it is there that
the remote's data is; a push takes what is here. A commit from before there was such a file
has none, so the newest branches of the remote are asked as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from havasu_vc.errors import CorruptDatasetError, InvalidArgumentError, InvalidFileError, StateError
from havasu_vc.formats.repository_config import (
    CONFIG_FILE,
    LONGEST,
    parse_repository_config,
    with_data_url,
)
from havasu_vc.remotes.protocol import ALLOWED, check_data_url, require_allowed
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.setting_up import set_up
from havasu_vc.store.commits import (
    NO_SIGNATURE,
    commits_known,
    drop_commits,
    read_commit,
    spoilt_commits,
    unsigned,
)
from havasu_vc.store.disk import read_ordinary, replace_file
from havasu_vc.store.refs import read_head, read_ref
from havasu_vc.store.trees import read_blob

__all__ = [
    "commit_data_url",
    "data_url",
    "known_data_url",
    "said_data_url",
    "stated_data_url",
    "take_data_url",
    "url_of_commit",
]

_BRANCHES_ASKED = 20


def data_url(repo: OpenRepo, remote: str, *, push: bool = False) -> str | None:
    """Return where the data of a remote is, if that was said; raise if it may not be used."""
    said = said_data_url(repo, remote)
    if said is not None:
        return said
    stated = stated_data_url(repo, remote, push=push)
    if stated is not None:
        require_allowed(stated, _allowed(repo), CONFIG_FILE)
    return stated


def known_data_url(repo: OpenRepo, remote: str) -> str | None:
    """Return where the data of a remote is said to be, whether it may be used or not."""
    said = said_data_url(repo, remote)
    with suppress(InvalidFileError):  # it is told where the data is wanted
        return said or stated_data_url(repo, remote)
    return None


def said_data_url(repo: OpenRepo, remote: str) -> str | None:
    """Return where the user's own settings say that the data of a remote is."""
    config = repo.git.config
    return config.get(f"remote.{remote}.havasudata") or config.get("havasu.data.url")


def stated_data_url(repo: OpenRepo, remote: str, *, push: bool = False) -> str | None:
    """Return where commits say that the data is."""
    for data in _texts(repo, remote, push=push):
        try:
            return parse_repository_config(data).data_url
        except InvalidFileError as error:
            error.hints = ("`git config havasu.data.url URL` says where it is, in this clone",)
            raise
    return None


def url_of_commit(repo: OpenRepo, commit: str) -> str | None:
    """Return where one commit says that the data is; raise if that may not be used."""
    data = _of_commit(repo, commit)
    url = None if data is None else parse_repository_config(data).data_url
    if url is not None:
        require_allowed(url, _allowed(repo), CONFIG_FILE)
    return url


def take_data_url(repo: OpenRepo, remote: str, url: str) -> None:
    """Use a place that the user names.

    Where commits say the same, it is allowed and no more, so that data may move later.
    """
    with suppress(InvalidFileError):
        if stated_data_url(repo, remote) == url:
            _allow(repo, url)
            return
    repo.git.config.set("havasu.data.url", url)


def commit_data_url(repo: OpenRepo, url: str) -> bool:
    """Commit that the data of this repository is at a URL; return whether it was not so already.

    Whoever says so here allows it here.
    """
    check_data_url(url)
    work_tree = repo.git.work_tree
    if work_tree is None:
        raise InvalidArgumentError(
            "a bare repository has no work tree to commit from",
            hints=("`havasu-vc data place URL` in a clone of it, then push",),
        )
    path = work_tree / CONFIG_FILE
    if path.is_symlink() or path.parent.is_symlink():
        raise StateError(f"{CONFIG_FILE} is a link, or in one, and may lead anywhere")
    head = _of_commit(repo, read_head(repo.git).commit)
    if head is not None and parse_repository_config(head).data_url == url:
        _allow(repo, url)
        return False
    changed = with_data_url(_of_work_tree(repo) or head or b"", url)
    _allow(repo, url)
    set_up(repo)
    replace_file(path, changed, begun_in=repo.git.data_folder / "temporary")
    repo.git.git("add", "--", CONFIG_FILE)
    message, before = f"Keep data at {url}", read_head(repo.git).commit
    wanted = repo.git.config.boolean("commit.gpgsign")
    known = commits_known(repo.git) if wanted else []
    repo.git.git("commit", "--quiet", "--only", "-m", message, "--", CONFIG_FILE)
    made = read_head(repo.git).commit
    if wanted and made is not None and spoilt_commits(repo.git, [made], known=known):
        repo.git.git("update-ref", *(("-d", "HEAD") if before is None else ("HEAD", before)))
        drop_commits(repo.git, [made])
        raise unsigned(NO_SIGNATURE)
    return True


def _allowed(repo: OpenRepo) -> list[str]:
    """Return the places that the user's own settings allow or name."""
    config = repo.git.config
    named = [url for name, url in config.section("remote").items() if name.endswith(".havasudata")]
    return [*config.all(ALLOWED), *named]


def _allow(repo: OpenRepo, url: str) -> None:
    if url not in _allowed(repo):
        repo.git.git("config", "--local", "--add", ALLOWED, url)
        repo.git.config.forget()


def _texts(repo: OpenRepo, remote: str, *, push: bool) -> Iterator[bytes]:
    """Yield what may say it, that which counts most first."""
    theirs, here = _of_remote(repo, remote), _of_here(repo)
    for sources in (here, theirs) if push else (theirs, here):
        yield from sources
    names = repo.git.git(
        "for-each-ref",
        f"--count={_BRANCHES_ASKED}",
        "--sort=-committerdate",
        "--format=%(objectname)",
        f"refs/remotes/{remote}/",
    ).lines
    for commit in names:
        if (data := _of_commit(repo, commit)) is not None:
            yield data


def _of_here(repo: OpenRepo) -> Iterator[bytes]:
    data = _of_work_tree(repo)
    if data is None:
        data = _of_commit(repo, read_head(repo.git).commit)
    if data is not None:
        yield data


def _of_remote(repo: OpenRepo, remote: str) -> Iterator[bytes]:
    """Yield what the branch says that is followed, or else the remote's own."""
    config, branch = repo.git.config, repo.head_branch
    refs = [f"refs/remotes/{remote}/HEAD"]
    if branch is not None and config.get(f"branch.{branch}.remote") == remote:
        merged = config.get(f"branch.{branch}.merge") or ""
        refs.insert(0, f"refs/remotes/{remote}/{merged.removeprefix('refs/heads/')}")
    for ref in refs:
        if (data := _of_commit(repo, read_ref(repo.git, ref))) is not None:
            yield data


def _of_commit(repo: OpenRepo, commit: str | None) -> bytes | None:
    if commit is not None:
        with suppress(CorruptDatasetError):
            tree = read_commit(repo.git.objects, commit).tree
            return read_blob(repo.git.objects, tree, CONFIG_FILE)
    return None


def _of_work_tree(repo: OpenRepo) -> bytes | None:
    """Return the file that is being edited; a link is none, as it may lead anywhere."""
    if repo.git.work_tree is None:
        return None
    path = repo.git.work_tree / CONFIG_FILE
    return None if path.parent.is_symlink() else read_ordinary(path, LONGEST + 1)
