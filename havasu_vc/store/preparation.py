"""Making an ordinary repository one that can hold datasets.

Datasets' internals are kept out of the work tree by a sparse checkout, in git's
general (not `cone`) form, whose last patterns are ours:

    /*                        everything, unless the user had patterns of their own
    !**/.havasu-dataset/
    !**/.table-dataset/

A user's patterns stay in front. Patterns in cone form mean the same in general form,
so such a checkout is turned into the general form. `tables/` (checkouts) is ignored
through `info/exclude`. The files are written here, not by `git sparse-checkout`, which would
also turn on an extension of the repository format. git-lfs is shown the data files.

git is told of two programs. The hook by which `git push` carries data is put where no hook of
the user's is. It runs this program if that can be found, and stops the push with the command to
run if it cannot: a ref never goes without its data.

The attribute `diff=havasu` covers everything inside of a dataset. For git's diff command,
`diff.havasu.command`, a few lines of shell pass over most of it: this program is started for
each delta that comes or goes whole and for each column, and the texts are printed.
`diff.havasu.textconv`, which `git show` and `git log -p` use, is shell alone: it prints what a
delta adds up to.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence, Set
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.model.names import HAVASU_MARKER, OLD_TABLE_MARKER, TABLES
from havasu_vc.store.command import run_git
from havasu_vc.store.disk import replace_file
from havasu_vc.store.files import DataFileStore, LfsLinks, lfs_folder
from havasu_vc.store.objects import ObjectId, ObjectSource
from havasu_vc.store.repository import GitRepository, init_kart
from havasu_vc.store.trees import find_entry, read_blob

__all__ = [
    "ATTRIBUTES_FILE",
    "DIFF_COMMAND",
    "HOOK_IS_ELSEWHERE",
    "OTHER_HOOK",
    "PRE_PUSH",
    "TEXT_CONVERSION",
    "attributes_edits",
    "hidden_patterns",
    "ignore",
    "init_repository",
    "install_hooks",
    "is_installed",
    "is_our_hook",
    "is_prepared",
    "prepare",
]


ATTRIBUTES_FILE = ".gitattributes"
_GENERATED = (b"data", b"edits", b"files")
"""Folders inside of a dataset that a host need not show in a review."""
_BYTES = b"**/.havasu-dataset/** -text diff=havasu"
_ATTRIBUTES = (
    *(b"**/.havasu-dataset/%s/** linguist-generated" % name for name in _GENERATED),
    _BYTES,
)
_GUARDS = {
    _BYTES: frozenset({b"text"}),
    b"**/.havasu-dataset/** -filter -ident !working-tree-encoding": frozenset(
        {b"filter", b"ident", b"working-tree-encoding"}
    ),
}
"""Lines that keep documents as they are, by the attributes that would convert them."""
_INNER = ("", "meta/", "meta/crs/")
"""Folders of documents, inside of a dataset's, where a file of no known name is not refused."""
_DOCUMENTS = (b"dataset.json", b"title", b"EPSG:4326.wkt", b"82a3537ff0dbce7e")
"""Names of documents, by which patterns that may be of some are known."""

_IGNORED = "/tables/"


def is_prepared(repository: GitRepository) -> bool:
    """Return whether internals stay out of this work tree, and git-lfs sees the data files."""
    if repository.is_kart:
        return True
    links = LfsLinks(repository.data_folder, lfs_folder(repository))
    return links.all_made and _hides_internals(repository)


def hidden_patterns() -> list[str]:
    """Return the patterns by which a sparse checkout leaves the internals of datasets out.

    Only repositories of Kart's own have tables of V2, and in those the work tree is Kart's.
    """
    return [f"!**/{marker}/" for marker in TABLES if marker != OLD_TABLE_MARKER]


def _hides_internals(repository: GitRepository) -> bool:
    if repository.is_bare:
        return True
    patterns, hidden = _lines(_read(repository, "sparse-checkout")), hidden_patterns()
    return (
        patterns[-len(hidden) :] == hidden
        and repository.config.boolean("core.sparseCheckout")
        and not repository.config.boolean("core.sparseCheckoutCone", True)
    )


def prepare(repository: GitRepository) -> None:
    """Set a repository up for datasets; do nothing where that was done.

    In a repository that Kart made, the work tree and its settings stay Kart's.
    """
    if repository.is_kart:
        return
    store = DataFileStore(repository.data_folder, lfs_folder(repository))
    if store.lfs_links is not None and not store.lfs_links.noted:
        store.show_all_to_lfs()
    if not repository.is_bare:
        ignore(repository, _IGNORED)
        _guard_attributes(repository)
        if not _hides_internals(repository):
            _hide_internals(repository)


def attributes_edits(
    source: ObjectSource, tree: ObjectId | None, folders: Iterable[str]
) -> dict[str, bytes | None]:
    """Return files of attributes as a commit upon `tree` should have them, where they are not so.

    `folders` are the internals of the datasets that it changes: what stands in a folder above
    them has the last word, and inside of them nothing of the kind has a place.
    """
    found: dict[str, bytes | None] = {}
    old = read_blob(source, tree, ATTRIBUTES_FILE) if tree is not None else None
    known = {tuple(line.split()) for line in (old or b"").splitlines()}
    missing = [line for line in _ATTRIBUTES if tuple(line.split()) not in known]
    above = _with_lines(old or b"", missing)
    if missing or _guarded(above) != above:
        found[ATTRIBUTES_FILE] = _guarded(above)
    if tree is None:
        return found
    for folder in folders:
        parents = [str(parent) for parent in PurePosixPath(folder).parents][:-1]
        for name in (f"{parent}/{ATTRIBUTES_FILE}" for parent in parents):
            text = read_blob(source, tree, name)
            if text is not None and _guarded(text) != text:
                found[name] = _guarded(text)
        for name in (f"{folder}/{inner}{ATTRIBUTES_FILE}" for inner in _INNER):
            if find_entry(source, tree, name) is not None:
                found[name] = None
    return found


def _with_lines(text: bytes, lines: Sequence[bytes]) -> bytes:
    end = b"" if not lines or not text or text.endswith(b"\n") else b"\n"
    return text + end + b"".join(line + b"\n" for line in lines)


def _guarded(text: bytes) -> bytes:
    """Return attributes in which the last word on documents is that nothing is converted."""
    for guard, attributes in _GUARDS.items():
        lines = text.splitlines(keepends=True)
        ours = [n for n, line in enumerate(lines) if line.split() == guard.split()]
        after = lines[ours[-1] + 1 :] if ours else lines
        if any(_is_of_documents(line, attributes) for line in after):
            kept = b"".join(line for line in lines if line.split() != guard.split())
            text = _with_lines(kept, [guard])
    return text


def _is_of_documents(line: bytes, names: Set[bytes]) -> bool:
    """Whether a line says one of these attributes of files that may be documents."""
    pattern, *attributes = line.split() or [b"#"]
    if pattern.startswith((b"#", b"[attr]", b"!")):
        return False
    said = (attribute.partition(b"=")[0] for attribute in attributes)
    if not any(each in names or (each[:1] == b"!" and each[1:] in names) for each in said):
        return False
    last = pattern.rstrip(b"/").rpartition(b"/")[2]
    return pattern.startswith(b'"') or any(fnmatchcase(name, last) for name in _DOCUMENTS)


def ignore(repository: GitRepository, pattern: str) -> None:
    """Have git pass over what a pattern matches, in all work trees of this repository."""
    path = repository.common_directory / "info" / "exclude"
    text = path.read_text("utf-8", "surrogateescape") if path.exists() else ""
    if pattern not in _lines(text):
        added = ("" if not text or text.endswith("\n") else "\n") + pattern + "\n"
        replace_file(path, (text + added).encode("utf-8", "surrogateescape"))


def _guard_attributes(repository: GitRepository) -> None:
    """Have what a user says of files here, above all that is committed, convert no document."""
    path = repository.common_directory / "info" / "attributes"
    if path.exists():
        text = path.read_bytes()
        if (guarded := _guarded(text)) != text:
            replace_file(path, guarded)


def _hide_internals(repository: GitRepository) -> None:
    config = repository.config
    wanted = _lines(_read(repository, "sparse-checkout"))
    if not wanted or not config.boolean("core.sparseCheckout"):
        wanted = ["/*"]  # patterns that were not in force would hide files now
    hidden = hidden_patterns()
    wanted = [line for line in wanted if line not in hidden] + hidden
    data = "".join(f"{line}\n" for line in wanted).encode("utf-8", "surrogateescape")
    replace_file(repository.git_directory / "info" / "sparse-checkout", data)
    if (repository.git_directory / "index").exists():
        # Before the settings, so that a repository whose index is locked is not taken for
        # prepared while git still misses no file of its datasets.
        settings = ("core.sparseCheckout=true", "core.sparseCheckoutCone=false")
        given = [word for setting in settings for word in ("-c", setting)]
        repository.git(*given, "sparse-checkout", "reapply")
    # `git sparse-checkout` keeps its settings per work tree, where they win.
    own = config.boolean("extensions.worktreeConfig")
    config.set("core.sparseCheckout", True, worktree=own)
    config.set("core.sparseCheckoutCone", False, worktree=own)
    if config.boolean("index.sparse"):
        config.set("index.sparse", False, worktree=own)


def _read(repository: GitRepository, name: str) -> str:
    path = repository.git_directory / "info" / name
    return path.read_text("utf-8", "surrogateescape") if path.exists() else ""


def _lines(text: str) -> list[str]:
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    return [line for line in lines if line and not line.startswith("#")]


# The programs that git is told to run.

MARK = "# havasu-vc: data files go before the refs that name them"
PRE_PUSH = f"""#!/bin/sh
{MARK}
[ -n "$HAVASU_VC_DATA_SENT" ] && exit 0
if command -v havasu-vc >/dev/null 2>&1; then
    exec havasu-vc data push --hook "$1"
fi
echo "havasu-vc is not on the PATH, and this push may name data files: run 'havasu-vc push'," >&2
echo "or 'git push --no-verify' if the data is there already" >&2
exit 1
"""
HOOK_IS_ELSEWHERE = (
    "there is another pre-push hook, which sends no data: let it run "
    '`havasu-vc data push --hook "$1"` with its input, or run `havasu-vc data push` before '
    "each `git push`"
)
"""The message to a user whose hook stays."""
OTHER_HOOK = "havasu.otherHook"
"""The setting which says that a hook of the user's was seen."""
_PLAIN = "LC_ALL=C tr -d '\\000-\\010\\013-\\037\\177'"
"""Takes away what would steer a terminal."""
_ROWS = (
    "if command -v havasu-vc >/dev/null 2>&1; then "
    'havasu-vc git-diff "$1" "${3:-.}" "${6:-.}" </dev/null || :; '
    'else echo "$1: rows are not shown, as havasu-vc is not on the PATH"; fi'
)
DIFF_COMMAND = (
    'havasu() { case "$1" in '
    f"*/{HAVASU_MARKER}/files/*) "
    # Packed on one side and nothing on the other: else one took the place of another.
    'packed=$2; [ "$2" = /dev/null ] && packed=$5; '
    'if [ "$(head -c 2 "$packed" | tr -d "\\000")" = z ] && '
    '{ [ "$2" = /dev/null ] || [ "$5" = /dev/null ]; }; '
    f"then {_ROWS}; fi;; "
    f"*/{HAVASU_MARKER}/columns/names/*) ;; "
    f'*/{HAVASU_MARKER}/columns/*) [ "$3" = "$6" ] || {{ {_ROWS}; }};; '
    f'*/{HAVASU_MARKER}/dataset.json) [ -z "$8" ] || '
    f'echo "renamed: ${{1%/{HAVASU_MARKER}/*}} → ${{8%/{HAVASU_MARKER}/*}}" | {_PLAIN};; '
    f"*/{HAVASU_MARKER}/meta/title|*/{HAVASU_MARKER}/meta/description) "
    '[ "$3" = "$6" ] || '
    'for side in "-$2" "+$5"; do sign=${side%"${side#?}"}; '
    'echo "$sign$sign$sign $1"; '
    f'{_PLAIN} <"${{side#?}}" | '
    'sed "s/^/$sign/"; echo; done;; '
    "esac; }; havasu"
)
TEXT_CONVERSION = (
    'havasu() { case "$(head -c 2 "$1" | tr -d "\\000")" in '
    # The compressed part of what zlib made, with the header that gzip would have written.
    "z) { printf '\\037\\213\\010\\0\\0\\0\\0\\0\\0\\0'; tail -c +5 \"$1\"; } | "
    "gzip -dc 2>/dev/null | sed '"
    's/^.*"rows":\\(-\\{0,1\\}[0-9]*\\),"digests":{\\([^}]*\\)}.*$/rows: \\1\\n\\2/; '
    's/"\\([0-9]*\\)":"\\([0-9a-f]*\\)",\\{0,1\\}/content of column \\1: \\2\\n/g'
    "';; "
    '*) tr -d "\\000" <"$1"; echo;; esac; }; havasu'
)


def install_hooks(repository: GitRepository) -> bool:
    """Have git run both; return whether data goes along, false where the user's hook decides.

    A repository that Kart made stays Kart's, and has no data files to carry.
    """
    if repository.is_kart:
        return True
    _install_diff(repository)
    if repository.config.get("core.hooksPath") is None:
        path = _hook_path(repository)
        if _is_our_hook(path):
            if path.read_text("utf-8") != PRE_PUSH:
                replace_file(path, PRE_PUSH.encode())
        elif not os.path.lexists(path):
            replace_file(path, PRE_PUSH.encode())
        if _is_our_hook(path):
            path.chmod(0o755)
    return _sends_data(repository)


def is_installed(repository: GitRepository) -> bool:
    """Whether git runs both, as far as the user's own hook and diff let that be."""
    config, path = repository.config, _hook_path(repository)
    if config.get("diff.havasu.command") is None:
        return False
    if config.get("core.hooksPath") is None and (_is_our_hook(path) or not os.path.lexists(path)):
        return _is_our_hook(path)
    # The user's own, perhaps since yesterday: it is looked at, and told, once.
    return config.boolean(OTHER_HOOK)


def _sends_data(repository: GitRepository) -> bool:
    """Whether the hook that git runs is ours, or one of the user's that runs what ours does.

    Kart's own in a bare repository of Kart's, whose datasets are git objects, is as good.
    """
    path = _hook_path(repository)
    if repository.config.get("core.hooksPath") is not None:
        place = repository.git("rev-parse", "--git-path", "hooks/pre-push").text
        path = (repository.work_tree or repository.git_directory) / place
    if repository.follows_kart and "kart lfs+ pre-push" in _hook_text(path):
        return True
    return _is_our_hook(path) or "havasu-vc data push" in _hook_text(path)


def is_our_hook(repository: GitRepository) -> bool:
    """Whether the hook by which `git push` carries data is the one that was put there."""
    return _is_our_hook(_hook_path(repository))


def _is_our_hook(path: Path) -> bool:
    return not path.is_symlink() and MARK in _hook_text(path)


def _hook_text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _hook_path(repository: GitRepository) -> Path:
    return repository.common_directory / "hooks" / "pre-push"


def _install_diff(repository: GitRepository) -> None:
    """Tell git how to show rows, where the user has not told it otherwise."""
    config = repository.config
    ours = {"command": DIFF_COMMAND, "textconv": TEXT_CONVERSION}
    known = {name: config.get(f"diff.havasu.{name}") for name in ours}
    for name, text in known.items():
        if text != ours[name] and (text is None or text.startswith("havasu() {")):
            config.set(f"diff.havasu.{name}", ours[name])


# Making a repository, or taking one that is there, so that it can hold datasets.
#
# Doing it again changes nothing, and what somebody has chosen before (a branch, a work
# tree) is never chosen anew.


def init_repository(
    path: Path | str, *, bare: bool = False, branch: str | None = None, kart: bool = False
) -> GitRepository:
    """Make a repository at `path`, or take the one that is there, and prepare it for datasets.

    With `kart` a new one is such as Kart makes.
    """
    place = Path(path).absolute()
    repository = GitRepository.at(place)
    if repository is None:
        _make(place, bare=bare, branch=branch, kart=kart)
        repository = GitRepository.open(place)
    else:
        _check_same(repository, bare, branch)
    prepare(repository)
    return repository


def _make(place: Path, *, bare: bool, branch: str | None, kart: bool) -> None:
    if place.exists() and not place.is_dir():
        raise InvalidArgumentError(f"{place} is a file; a repository needs a folder")
    if branch is None:
        configured = run_git(["config", "--get", "init.defaultBranch"], check=False).text
        branch = configured or "main"
    if kart:
        init_kart(place, bare=bare, branch=branch)
        return
    options = ["--quiet", "--object-format=sha1", f"--initial-branch={branch}"]
    run_git(["init", *options, *(["--bare"] if bare else []), "--", str(place)])


def _check_same(repository: GitRepository, bare: bool, branch: str | None) -> None:
    """Refuse what a repository is not, but name the branch of one without commits."""
    if bare and not repository.is_bare:
        raise InvalidArgumentError(f"{repository.path} is a repository with a work tree already")
    if branch is None or branch == repository.head_branch:
        return
    if not repository.handle.head_is_unborn:
        raise InvalidArgumentError(
            f"{repository.path} is a repository on branch {repository.head_branch!r} already",
            hints=(f"`havasu-vc switch -c {shlex.quote(branch)}` makes another branch",),
        )
    repository.git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
