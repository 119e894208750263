"""The frame of every command: where the repository is and how to talk to the person.

`Invocation` holds the options that are common to all commands. stdout is for data
alone; notes, results and progress go to stderr and can be silenced. In a repository of Kart's
results go to stdout, as there. What came of a command goes to stdout as JSON where `-o json` asks
for it; a program may have stderr in JSON too, a line for each thing that is told.

The repository that git's variables name, as where git runs a hook or an alias.

`GIT_DIR` stands before the current folder, and `-C` before it: who names a repository means no
other. A work tree or an index apart from the repository's own is refused, or told of.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TextIO

import click

from havasu_vc.cli.as_kart import (
    in_karts_words,
    is_called_kart,
    is_in_karts_place,
    lines_said,
    results_on_stdout,
    stand_in,
    stands_in,
)
from havasu_vc.cli.errors import json_line, visible
from havasu_vc.errors import RepositoryNotFoundError, StateError
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.engine.protocol import Progress
    from havasu_vc.engine.settings import Settings
    from havasu_vc.library import Repo
    from havasu_vc.store.repository import GitRepository

__all__ = ["PROGRESS", "Invocation", "check_named", "load_libraries", "named_place"]

PROGRESS = ("auto", "json", "none")
"""How progress is told: bars on a terminal, lines of JSON, or not."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """The options that stand for all commands, and what follows from them."""

    folder: Path = Path(".")
    """The folder to work in."""
    verbose: bool = False
    """Whether to tell more."""
    quiet: bool = False
    """Whether to tell nothing but errors."""
    progress: bool = True
    """Whether to draw how far a long run is."""
    pager: bool = True
    """Whether long output may go through a pager."""
    color: bool = True
    """Whether colours are allowed where they can be seen."""
    engine: str = "auto"
    """Where tasks run."""
    master: str | None = None
    """Where Spark runs."""
    json: str | None = None
    """The style of the JSON that tells what came of the command; None for text."""
    json_errors: bool = False
    """Whether everything that is told on stderr is told in lines of JSON."""
    progress_form: str = "auto"
    """How progress is told, one of `PROGRESS`."""

    def result(self, form: str, value: Mapping[str, object] | Sequence[object]) -> None:
        """Print what came of a command as JSON, where that is asked for.

        `form` names what the value is, one of `cli.forms`.
        """
        if self.json is not None:
            from havasu_vc.writers.json_style import LAYOUTS
            from havasu_vc.writers.protocol import JsonStyle

            click.echo(LAYOUTS[JsonStyle(self.json)].dumps({form: value}))

    def say(self, text: str, *, aside: bool = False) -> None:
        """Tell the person what was done, on stderr; on stdout in Kart's place.

        `aside` is what git tells there, on stderr. Where JSON tells it, Kart says nothing more.
        """
        if self.quiet:
            return
        if self.json is None or not stands_in(click.get_current_context(silent=True)):
            for line in lines_said(text):
                self._tell("text", line, err=aside or not results_on_stdout())

    def note(self, text: str) -> None:
        """Tell the person something to know, on stderr."""
        if not self.quiet:
            for line in lines_said(f"Note: {text}"):
                kind = "note" if line.startswith("Note: ") else "text"
                self._tell(kind, line.removeprefix("Note: "))

    def note_system(self) -> None:
        """Tell who makes a first repository of a system on which nobody has run this much."""
        if sys.platform == "win32":
            self.note("on Windows this is young: keep a copy of what you cannot lose, or use WSL")

    def notes(self, texts: Sequence[str]) -> None:
        """Tell several notes."""
        for text in texts:
            self.note(text)

    def detail(self, text: str) -> None:
        """Tell what only `-v` asks for, on stderr."""
        if self.verbose and not self.quiet:
            self._tell("text", text)

    def _tell(self, kind: str, text: str, *, err: bool = True) -> None:
        if self.json_errors and err:
            click.echo(json_line(kind, message=in_karts_words(text)), err=True)
            return
        shown = visible(text)
        click.echo(in_karts_words(f"Note: {shown}" if kind == "note" else shown), err=err)

    def colored(self, stream: TextIO, when: str = "auto") -> bool:
        """Return whether to colour what goes to a stream."""
        if when != "auto":
            return when == "always"
        return self.color and stream.isatty()

    @property
    def here(self) -> Path:
        """The folder from which the places that a command names are reckoned.

        In Kart `-C` says whose repository is meant, and no more.
        """
        return Path() if is_called_kart() else self.folder

    @property
    def place(self) -> Path:
        """Where the repository is looked for, as git's variables have it where `-C` does not."""
        return named_place(self.folder)

    def settings(self) -> Settings:
        """Return the settings to open a repository with."""
        from havasu_vc.engine.settings import Settings

        engine = self.engine
        if self.master is not None:
            if not self.master.strip():
                raise click.UsageError("--master is empty: it says where Spark runs")
            if engine == "local":
                raise click.UsageError(
                    "--master says where Spark runs, which --engine local is not"
                )
            engine = "spark"
        note = _once(self.note)
        return Settings(engine=engine, master=self.master, progress=self._progress(), note=note)

    def open_repo(self, *, rows: bool = True, oldest: bool = False) -> Repo:
        """Open the repository that the command is about.

        Without `rows`, for a command that reads none, Arrow need not be loaded. With `oldest`
        those of Kart's forms V0 and V1 are opened too, which hold nothing that is read here.
        """
        load_libraries()
        from havasu_vc.library import Repo

        if rows:
            from havasu_vc.quick_arrow import leave_pandas_out

            leave_pandas_out()
        repo = Repo.open(self.place, settings=self.settings())
        if (told := check_named(self.folder, repo.git)) is not None:
            self.note(told)
        repo.set_up()
        if is_in_karts_place(repo.git):
            stand_in()
        if not oldest:
            _refuse_oldest(repo.git)
        if is_called_kart() and not oldest:
            _refuse_others(repo)
        return repo

    def _progress(self) -> Progress | None:
        from havasu_vc.cli.progress import JsonProgress, TerminalProgress

        if self.quiet or not self.progress or self.progress_form == "none":
            return None
        if self.progress_form == "json":
            return JsonProgress()
        if self.json_errors or not sys.stderr.isatty():
            return None
        return TerminalProgress(color=self.color)


_LATER = ("hashlib", "secrets", "socket", "bz2", "lzma", "csv", "base64")
"""Modules of Python's that others load and most commands do without."""


class _Later(ModuleType):
    """A module that is loaded when something of it is asked for, and not when it is imported."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            found = self.load()
            vars(self).update({each: getattr(found, each) for each in found.__all__})
            return found.__all__
        if name.startswith("__"):
            raise AttributeError(name)
        found = vars(self)[name] = getattr(self.load(), name)
        return found

    def load(self) -> ModuleType:
        """Load it, and let whoever imports it from now on have it."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return import_module(self.__name__)


class _LaterPackage(_Later):
    """A package that is loaded later, in which modules are found."""

    def __getattr__(self, name: str) -> Any:
        return self.load().__path__ if name == "__path__" else super().__getattr__(name)


class _AnyType:
    """A type that stands for those of numpy's arrays where nothing looks at them."""

    def __class_getitem__(cls, item: object) -> type[_AnyType]:
        return cls


class _Types(_LaterPackage):
    """numpy's own types, which it reads a tenth of the time to describe a few results by."""

    def __getattr__(self, name: str) -> Any:
        asking = sys._getframe(1).f_globals.get("__name__", "")
        if asking == "numpy.typing" or asking.startswith("numpy.linalg."):
            if name in ("ArrayLike", "DTypeLike", "NBitBase", "NDArray"):
                return _AnyType
            if name == "__path__":
                raise AttributeError(name)  # each `from … import` asks for it, and none is wanted
        return super().__getattr__(name)


def load_libraries() -> None:
    """Load pygit2, and have numpy loaded later, without what no command uses.

    pygit2 has libgit2 parse whatever certificates this machine trusts, and loads `ssl` to ask
    which, each of which takes ten milliseconds: `git` talks to servers, libgit2 never does. Other
    libraries do, so nothing else may be loaded meanwhile. It loads `tarfile` for a type's name.
    numpy spends as much on texts that its functions have for readers, and on types that checkers
    know without it. `hashlib` loads OpenSSL, and so does `secrets`: 3 MB for a diff, which hashes
    nothing. `bz2` and `lzma` come with `shutil`, which only asks whether they are there.
    """
    for name in _LATER:
        sys.modules.setdefault(name, _Later(name))
    sys.modules.setdefault("ctypes", _LaterPackage("ctypes"))
    if "numpy" not in sys.modules:
        for name in ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars"):
            sys.modules.setdefault(name, _Later(name))
        sys.modules.setdefault("numpy._typing", _Types("numpy._typing"))
        texts = sys.modules.setdefault(name := "numpy._typing._add_docstring", _Later(name))
        vars(texts).setdefault("_docstrings", "")
    if "pygit2" in sys.modules:
        return
    ours = {"SSL_CERT_FILE": "", "SSL_CERT_DIR": os.path.dirname(__file__)}
    before = {name: os.environ.get(name) for name in ours}
    none = SimpleNamespace(cafile=None, capath=ours["SSL_CERT_DIR"])
    later = {name: _Later(name) for name in ("ssl", "tarfile")}
    vars(later["ssl"]).update(DefaultVerifyPaths=type(none), get_default_verify_paths=lambda: none)
    vars(later["tarfile"]).update(TarFile=object)  # named by a method that no command calls
    loaded = {name: sys.modules.get(name) for name in later}
    os.environ.update(ours)
    sys.modules.update(later)
    try:
        import_module("pygit2")
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        for name, module in loaded.items():
            if module is not None:
                sys.modules[name] = module
            elif sys.modules.get(name) is later[name]:
                del sys.modules[name]


def _once(note: Callable[[str], None]) -> Callable[[str], None]:
    """Return what tells each note once, however many commits it is of."""
    told: set[str] = set()

    def tell(text: str) -> None:
        if len(told) > 100:  # a server goes on for long
            told.clear()
        if text not in told:
            told.add(text)
            note(text)

    return tell


def _refuse_oldest(git: GitRepository) -> None:
    """Refuse Kart's forms V0 and V1, whose repositories are always bare, as Kart does."""
    if not git.is_bare:
        return
    from havasu_vc.store.kart_version import kart_version, oldest_form

    number = kart_version(git)
    if number in (0, 1):
        raise oldest_form(number)


def _refuse_others(repo: Repo) -> None:
    """Refuse a repository in which Kart sees none: of git alone, or without any dataset.

    One with Havasu datasets is ours by whichever name, and so is one without any dataset that
    `init` made by our own name.
    """
    from havasu_vc.model.names import HAVASU_MARKER, KART_VERSION, OLD_VERSION
    from havasu_vc.store.trees import find_entry

    git, head = repo.git, repo.head()
    kinds = {folder.marker for folder in repo.folders(head).values()}
    if git.follows_kart:
        if kinds or head.commit is None:
            return
        if not any(
            find_entry(git.objects, head.tree, name) for name in (KART_VERSION, OLD_VERSION)
        ):
            error = RepositoryNotFoundError(str(repo.path))
            error.message = f"{repo.path} has no dataset at HEAD, nor says of which form it is"
            raise error
    elif not git.is_bare and not os.environ.get("KART_ALLOW_FROM_GIT"):
        if HAVASU_MARKER not in kinds and (kinds or not git.config.get("diff.havasu.command")):
            error = RepositoryNotFoundError(str(repo.path))
            if not kinds:
                error.hints = ("`havasu-vc init` makes this git repository one for tables",)
            raise error


def wants_color() -> bool:
    """Return whether the environment allows colours (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def require_no_file(folder: Path, directory: Path | None) -> None:
    """Raise where a repository that a command is to make would be a file."""
    if directory is not None and (folder / directory).is_file():
        raise click.BadParameter(f"Directory '{directory}' is a file.", param_hint="'[DIRECTORY]'")


def named_place(folder: Path) -> Path:
    """Return where to look for the repository of a command that is to work in a folder."""
    if folder != Path():
        if not folder.exists():
            # Else it would be looked for in the folders around it, which nobody means.
            raise RepositoryNotFoundError(str(folder))
        return folder
    named = os.environ.get("GIT_DIR")
    if not named:
        return folder
    place = Path(named)
    if place.is_file() or (place.name == ".kart" and place.is_dir()):
        return place.parent  # which says where the git directory is, or is Kart's
    # Else it would be looked for in the folders around it, which git does not.
    has_objects = (place / "objects").is_dir() or (place / "commondir").is_file()
    if not os.path.lexists(place / "HEAD") or not has_objects:
        error = RepositoryNotFoundError(named)
        error.hints = ("GIT_DIR names it; `unset GIT_DIR` looks in the current folder",)
        raise error
    return place


def check_named(folder: Path, git: GitRepository) -> str | None:
    """Raise where git's variables name another work tree; return what to tell of another index."""
    if folder != Path():
        return None
    named = os.environ.get("GIT_WORK_TREE")
    own = git.work_tree
    if named and (own is None or os.path.realpath(named) != os.path.realpath(own)):
        there = "it is bare" if own is None else f"its work tree is {own}"
        raise StateError(
            f"GIT_WORK_TREE names {named} for {git.git_directory}, but {there}",
            hints=("`git config core.worktree FOLDER` gives a repository another work tree",),
        )
    index = os.environ.get("GIT_INDEX_FILE")
    # While git commits, its own lies beside the other and changes nothing of datasets.
    if index and os.path.realpath(os.path.dirname(index)) != os.path.realpath(git.git_directory):
        return f"GIT_INDEX_FILE is not followed: {index} is not the index of {git.git_directory}"
    return None
