"""The catalog: one repository, how it is served, and what is remembered of it between requests.

Nothing that is remembered decides what is answered: a server that starts anew, or another one on
the same repository, answers the same.

A route is a method and a path of parts, with the function that answers; a part in braces is a name
that the handler gets. Paths are split before they are decoded: the `%2F` of a name divides nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import unquote

from havasu_vc.engine.settings import Settings
from havasu_vc.errors import HavasuError, InvalidArgumentError
from havasu_vc.library import Repo
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.serving.feeds import Feeds, system_of
from havasu_vc.serving.forms import PLAIN, TableForm
from havasu_vc.serving.keys import Reach, StoreKeys
from havasu_vc.serving.metadata import LoadedTable, TableMaker
from havasu_vc.serving.names import EVERY, TOP, Name, ServedRef, candidates, find_ref, ref_of_prefix
from havasu_vc.serving.remembering import MOST_BYTES
from havasu_vc.serving.routes import Answer, Call, Refused, no_namespace, no_table
from havasu_vc.serving.shared_place import SharedPlace
from havasu_vc.serving.tokens import Tokens
from havasu_vc.sharing import far_place
from havasu_vc.store.refs import list_branches, list_tags
from havasu_vc.store.repository import GitRepository

__all__ = ["Catalog", "Handler", "Route", "Router", "ServeSettings", "Target", "route"]


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """How a repository is served."""

    write: tuple[str, ...] = ()
    """Patterns of the branches that clients may commit to, as `main` or `feature/*`; none: none."""
    tokens: Path | None = None
    """A file of the tokens that clients must show; None lets everybody in."""
    author_header: str | None = None
    """The header in which a proxy that is trusted says who asks; None where none does."""
    loopback: bool = False
    """Whether the server listens to this machine alone, so no other name may be asked for."""


@dataclass(frozen=True, slots=True)
class Target:
    """The subject of a request."""

    ref: ServedRef
    """The ref."""
    path: str
    """The dataset, which need not exist."""
    name: Name
    """How the client calls it."""
    system: str | None = None
    """Which table beside the dataset it is; None for the dataset's own."""


class Catalog:
    """One repository as it is served."""

    def __init__(self, path: Path | str, settings: ServeSettings) -> None:
        """Serve the repository that a path is in."""
        git = GitRepository.open(path)
        self.settings = settings
        """How it is served."""
        most = git.config.integer("havasu.catalog.keep", MOST_BYTES)
        self.tables = TableMaker(git.data_folder / "catalog", most)
        """Makes tables of datasets."""
        self.feeds = Feeds(self.tables)
        """Makes the tables beside datasets."""
        self.tokens = None if settings.tokens is None else Tokens(settings.tokens)
        """The tokens that are asked for."""
        self.keys = StoreKeys()
        """The keys of buckets that clients get."""
        self._path = git.git_directory
        self._own = threading.local()
        shared = git.config.get("havasu.catalog.url")
        if shared is not None:
            data = far_place(self.repo)
            if data is None:
                raise InvalidArgumentError(
                    "havasu.catalog.url is set, and data files are in no bucket",
                    hints=("`git config havasu.data.url` names one",),
                )
            self.tables.share(SharedPlace(shared, self.tables.root, data, self.repo.storage.files))

    @property
    def repo(self) -> OpenRepo:
        """The repository, opened for this thread."""
        found: OpenRepo | None = getattr(self._own, "repo", None)
        if found is None:
            # A server starts no Spark for what a request asks.
            repo = Repo(GitRepository.open(self._path), Settings(engine="local"))
            repo.keep_policy()
            found = repo.opened
            self._own.repo = found
        return found

    def may_write(self, branch: str | None) -> bool:
        """Whether clients may commit to a branch."""
        if branch is None:
            return False
        return any(fnmatchcase(branch, pattern) for pattern in self.settings.write)

    def ref(self, call: Call, namespace: tuple[str, ...] = ()) -> tuple[ServedRef, tuple[str, ...]]:
        """Return the ref of a request, and the namespace in it."""
        name = ref_of_prefix(call.names["prefix"])
        if name == EVERY:
            if not namespace:
                raise Refused(404, "NoSuchNamespaceException", "a namespace begins with a ref")
            try:
                return find_ref(self.repo, namespace[0]), (namespace[1:] or (TOP,))
            except Refused as error:
                raise no_namespace(".".join(namespace)) from error
        return find_ref(self.repo, name), namespace

    def every(self, call: Call) -> bool:
        """Whether a request is about all refs."""
        return ref_of_prefix(call.names["prefix"]) == EVERY

    def refs(self) -> list[str]:
        """Return the names of the branches and tags."""
        git = self.repo.git
        return sorted({e.name for e in list_branches(git)} | {e.name for e in list_tags(git)})

    def target(self, call: Call, namespace: tuple[str, ...], table: str) -> Target:
        """Return what a table's name means: `parcels`, or `parcels@REF`."""
        name = Name(namespace, table)
        try:
            ref, inside = self.ref(call, namespace)
        except Refused as error:
            raise no_table(".".join([*namespace, table])) from error
        found = self._found(ref, inside, table, name)
        if found is None and "@" in table:
            start, _, other = table.partition("@")
            try:
                at = find_ref(self.repo, other)
            except Refused as error:
                raise no_table(table) from error
            aside = ServedRef(at.name, at.revision, None)
            return self._found(aside, inside, start, name) or Target(aside, start, name)
        return found or Target(ref, candidates(inside, table)[-1], name)

    def _found(
        self, ref: ServedRef, namespace: tuple[str, ...], table: str, name: Name
    ) -> Target | None:
        """Return what there is of a name at a ref: a dataset, or a table beside one."""
        path = self._dataset(ref, namespace, table)
        if path is not None:
            return Target(ref, path, name)
        system = system_of(table)
        path = None if system is None else self._dataset(ref, namespace, system[0])
        if system is None or path is None:
            return None
        return Target(ref, path, name, system[1])

    def _dataset(self, ref: ServedRef, namespace: tuple[str, ...], table: str) -> str | None:
        if ref.revision.commit is None:
            return None
        for path in candidates(namespace, table):
            if self.tables.history.versions(self.repo, ref.revision.commit, path):
                return path
        return None

    def load(self, target: Target, form: TableForm = PLAIN) -> LoadedTable:
        """Return a table as clients load it."""
        commit = target.ref.revision.commit
        found = None
        if commit is not None and target.system is not None:
            found = self.feeds.load(self.repo, target.path, commit, target.system)
        elif commit is not None:
            branch = target.ref.branch
            found = self.tables.load(self.repo, target.path, commit, branch=branch, form=form)
        if found is None:
            raise no_table(str(target.name))
        return found

    def reach(self, data: str | None, staging: Path | None) -> Reach:
        """Return where a table's client goes, with the folder that it may write to, if any."""
        shared = self.tables.documents.shared
        if shared is None:
            return Reach(data)
        return Reach(
            shared.data_url, shared.url, None if staging is None else shared.spell(staging)
        )

    def datasets(self, ref: ServedRef) -> tuple[str, ...]:
        """Return the paths of the datasets at a ref that tables can be made of."""
        try:
            return self.repo.datasets(ref.revision.commit) if ref.revision.commit else ()
        except HavasuError as error:
            raise no_namespace(ref.name) from error


Handler = Callable[[Catalog, Call], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """Which function answers a request."""

    method: str
    """`GET`, `POST`, …"""
    path: str
    """As in `/v1/{prefix}/namespaces`."""
    handler: Handler
    """The function that answers."""
    stated: bool = True
    """Whether the list of endpoints names it."""

    @property
    def writes(self) -> bool:
        """Whether it changes the repository."""
        return self.method not in ("GET", "HEAD") and not self.path.endswith("/metrics")

    @property
    def endpoint(self) -> str:
        """How the catalog's configuration calls it."""
        return f"{self.method} {self.path}"


def route(method: str, path: str, handler: Handler, *, stated: bool = True) -> Route:
    """Return a route.

    >>> route("GET", "/v1/config", lambda catalog, call: Answer()).endpoint
    'GET /v1/config'
    """
    return Route(method, path, handler, stated)


class Router:
    """All routes, by their number of parts."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        self._by_length: dict[int, list[tuple[tuple[str, ...], Route]]] = {}
        for each in routes:
            parts = tuple(each.path.strip("/").split("/"))
            self._by_length.setdefault(len(parts), []).append((parts, each))

    def find(self, method: str, raw_path: str) -> tuple[Route, dict[str, str]]:
        """Return what answers a request, and the names in its path."""
        parts = raw_path.strip("/").split("/")
        known = False
        for pattern, each in self._by_length.get(len(parts), ()):
            if all(p == part or p.startswith("{") for p, part in zip(pattern, parts, strict=True)):
                known = True
                if each.method == method:
                    pairs = zip(pattern, parts, strict=True)
                    names = {p[1:-1]: unquote(part) for p, part in pairs if p.startswith("{")}
                    return each, names
        if known:
            raise Refused(405, "MethodNotAllowedException", f"{method} is not allowed here")
        raise Refused(404, "NotFoundException", "this catalog has nothing at this path")
