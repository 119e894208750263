"""Where the living working copy of a repository is: known from a setting, without opening it.

    kart.workingcopy.location         in a repository that Kart made, as Kart has it
    havasu.workingcopy.location       in any other
    havasu.worktree.NAME.location     in a linked work tree, whose settings git shares with all

A path is of the work tree. Databases that we do not write to are Kart's own to look after.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from havasu_vc.errors import InvalidArgumentError, NotYetSupportedError
from havasu_vc.exchange.addresses import is_address, parse_address, same_schema
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.repository import GitRepository

if TYPE_CHECKING:
    from havasu_vc.exchange.living_store import LivingHome

_OFF = ("false", "no", "off", "0")

__all__ = [
    "LivingPlace",
    "behind_mark",
    "default_location",
    "is_place",
    "is_working_copy",
    "keeping_out",
    "leave_out",
    "left_out",
    "living_place",
    "named_in",
    "place_at",
    "plan_living",
    "require_no_secret",
    "require_other_file",
    "require_place",
    "setting",
]


@dataclass(frozen=True, slots=True)
class LivingPlace:
    """The working copy of a repository, which may not have been made yet."""

    path: Path | None
    """The file; None where it is in a database."""
    kart: bool
    """Whether it is Kart's as well."""
    address: str = ""
    """The address of the schema, as the setting has it."""

    @property
    def where(self) -> Path | str:
        """The place, as people are told."""
        return parse_address(self.address).shown if self.path is None else self.path

    @property
    def short(self) -> str:
        """The place in short."""
        return parse_address(self.address).shown if self.path is None else self.path.name

    @property
    def exists(self) -> bool:
        """Whether there is one; a server is asked."""
        return self.home().exists if self.path is None else self.path.is_file()

    def home(self) -> LivingHome:
        """Return what opens it."""
        if self.path is None:
            from havasu_vc.exchange.postgis_copy import PostgisHome

            return PostgisHome(self.address, kart=self.kart)
        from havasu_vc.exchange.living_home import GeoPackageHome

        return GeoPackageHome(self.path, kart=self.kart)

    def setting(self, git: GitRepository) -> str:
        """Return what the setting says of it."""
        if self.path is None:
            return self.address
        base = Path(os.path.realpath(git.work_tree or ""))
        if self.path.is_relative_to(base):
            return self.path.relative_to(base).as_posix()
        # As in Kart, which looks for it from the repository too.
        return _from(base, self.path) if git.is_kart else str(self.path)


def _from(base: Path, path: Path) -> str:
    """Return a path that begins at a folder, or the whole path where none leads there."""
    try:
        return Path(os.path.relpath(path, base)).as_posix()
    except ValueError:  # they are on two drives
        return str(path)


def named_in(folder: Path, text: str, git: GitRepository) -> str:
    """Return the setting for a place that somebody in a folder names, as Kart takes it."""
    if is_address(text) or not is_place(text):
        return text
    path = Path(os.path.normpath(os.path.join(os.path.realpath(folder), text)))
    return LivingPlace(path, git.is_kart).setting(git)


def is_place(text: str) -> bool:
    """Whether a text names a place that a working copy can have."""
    return is_address(text) or (text.lower().endswith(".gpkg") and "://" not in text)


def place_at(git: GitRepository, text: str) -> LivingPlace:
    """Return the place that a setting or a person names."""
    if is_address(text):
        return LivingPlace(None, git.is_kart, text)
    _require_no_other_server(text)
    base = os.path.realpath(git.work_tree or "")
    return LivingPlace(Path(os.path.normpath(os.path.join(base, text))), git.is_kart)


def require_place(text: str, *, asked: bool = False) -> None:
    """Raise where a text names no place that a working copy can have; a server may be `asked`."""
    if is_address(text):
        parse_address(text)
        if asked:
            _ = LivingPlace(None, True, text).exists
        return
    _require_no_other_server(text)
    if not is_place(text):
        raise InvalidArgumentError(
            f"{text} is not the name of a GeoPackage", hints=("end it in .gpkg",)
        )


def _require_no_other_server(text: str) -> None:
    if "://" in text or text.lower().startswith(("postgres:", "mssql:", "mysql:")):
        from havasu_vc.remotes.urls import hidden_secrets

        raise NotYetSupportedError(
            f"a working copy is a GeoPackage or in PostGIS, not at {hidden_secrets(text)}",
            hints=("name a file that ends in .gpkg, or postgresql://USER@HOST/DATABASE/SCHEMA",),
        )


def setting(git: GitRepository) -> str:
    """Return the name of the setting that says where the working copy of a work tree is."""
    if git.is_linked:
        return f"havasu.worktree.{git.git_directory.name}.location"
    return "kart.workingcopy.location" if git.is_kart else "havasu.workingcopy.location"


def living_place(repo: OpenRepo) -> LivingPlace | None:
    """Return where the working copy is, or would be; None where there is to be none."""
    git = repo.git
    if git.is_bare:
        return None
    text = git.config.get(setting(git))
    if not text or not is_place(text):
        return None
    return place_at(git, text)


def require_no_secret(place: LivingPlace) -> None:
    """Raise where an address that is to be kept has a password in it."""
    if place.path is not None:
        return
    if parse_address(place.address).has_password:
        raise InvalidArgumentError(
            "a password is in the address, which the settings would keep",
            hints=("leave it out: ~/.pgpass, PGPASSWORD or a service file has it",),
        )


def default_location(git: GitRepository) -> str:
    """Return the name that a working copy has unless another is asked for."""
    return f"{Path(os.path.realpath(git.work_tree or '.')).name}.gpkg"


def plan_living(repo: OpenRepo, location: str | None = None) -> bool:
    """Note where a working copy is to be; return whether there is to be one."""
    git = repo.git
    if git.is_bare:
        return False
    if location is not None:
        require_no_secret(place_at(git, location))
        git.config.set(setting(git), location)
    return living_place(repo) is not None


def _checkout_setting(path: str) -> str:
    """Return the name of the setting, Kart's, by which a dataset is not in the working copy."""
    return f"dataset.{path}.checkout"


def left_out(git: GitRepository) -> tuple[str, ...]:
    """Return the paths of datasets that the settings leave out of the working copy."""
    named = (
        (name.removesuffix(".checkout"), text)
        for name, text in git.config.section("dataset").items()
        if name.endswith(".checkout")
    )
    return tuple(sorted(path for path, text in named if text.lower() in _OFF))


@contextmanager
def keeping_out(git: GitRepository, paths: Iterable[str], *, out: bool) -> Iterator[None]:
    """Have datasets that are about to come left out of the working copy, or not.

    Where they do not come after all, the settings are as they were.
    """
    known = left_out(git)
    changed = [path for path in paths if (path in known) != out]
    leave_out(git, changed, out=out)
    try:
        yield
    except BaseException:
        leave_out(git, changed, out=not out)
        raise


def leave_out(git: GitRepository, paths: Iterable[str], *, out: bool = True) -> None:
    """Have the settings leave datasets out of the working copy, or not."""
    for path in paths:
        if out:
            git.config.set(_checkout_setting(path), "false")
        else:
            git.config.unset(_checkout_setting(path))


def behind_mark(git: GitRepository) -> Path:
    """Return the file that stands while HEAD may be moving and the working copy has yet to."""
    return git.git_directory / "havasu" / "working-copy-behind"


def require_other_file(repo: OpenRepo, file: str | Path, instead: str) -> None:
    """Raise where a file is the working copy itself; `instead` says what to do.

    A library that opens it in this process, and closes it, drops the lock that holds it.
    """
    if is_working_copy(repo, file):
        shown = parse_address(str(file)).shown if is_address(str(file)) else file
        raise InvalidArgumentError(
            f"{shown} is the working copy of this repository", hints=(instead,)
        )


def is_working_copy(repo: OpenRepo, file: str | Path) -> bool:
    """Whether a file, or a schema of a server, is the working copy itself."""
    place = living_place(repo)
    if place is not None and place.path is None and is_address(str(file)):
        return same_schema(parse_address(str(file)), parse_address(place.address))
    if place is None or place.path is None or not place.exists:
        return False
    try:
        return os.path.samefile(str(file).removeprefix("GPKG:"), place.path)
    except OSError:
        return False
