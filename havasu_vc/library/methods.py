"""Use cases as methods of `Repo`: a function of a package, spelt once, bound to a repository.

    class Repo:
        status = uses(lambda: looking.status)
        log = asks(lambda: looking.LogRequest, lambda: looking.log)

A method takes what the function takes after the open repository, or what the request has as
fields, with their types, names and defaults: type checkers see them, and so do `help` and
`inspect.signature`. The function is looked up when the method is called, and what it needs is
loaded then.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from havasu_vc.repo.opened import OpenRepo

__all__ = ["Method", "asks", "sentences", "uses"]

P = ParamSpec("P")
Q = TypeVar("Q")
R = TypeVar("R")
Within = Callable[[OpenRepo], AbstractContextManager[None]]


class _Opened(Protocol):
    """The object that has the methods."""

    @property
    def opened(self) -> OpenRepo: ...


class Method(Generic[P, R]):
    """A use case that is called as a method."""

    def __init__(
        self,
        function: Callable[[], Callable[..., R]],
        request: Callable[[], Callable[P, object]] | None,
        within: Within | None,
    ) -> None:
        self._function = function
        self._request = request
        self._within = within or (lambda _: nullcontext())

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self._owner = owner

    @overload
    def __get__(self, repo: None, owner: type) -> Callable[Concatenate[Any, P], R]: ...
    @overload
    def __get__(self, repo: _Opened, owner: type) -> Callable[P, R]: ...
    def __get__(self, repo: _Opened | None, owner: type) -> Any:
        if repo is None:
            return self._documented()
        opened = repo.opened

        def call(*arguments: Any, **keywords: Any) -> R:
            function = self._function()
            if self._request is not None:
                arguments, keywords = (self._request()(*arguments, **keywords),), {}
            with self._within(opened):
                return function(opened, *arguments, **keywords)

        return call

    def _documented(self) -> Callable[..., R]:
        """Return the method as a function of the class, as people and programs look at it."""
        function = self._function()
        taken = inspect.signature(function)
        parameters = list(taken.parameters.values())[1:]
        text = inspect.getdoc(function) or ""
        if self._request is not None:
            request = self._request()
            parameters = list(inspect.signature(request).parameters.values())
            said = "\n".join(f"{name}: {each}" for name, each in sentences(request).items())
            text = f"{text}\n\n{said}"
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)

        def method(self: _Opened, /, *arguments: Any, **keywords: Any) -> R:
            made: R = getattr(self, method.__name__)(*arguments, **keywords)
            return made

        method.__doc__ = text
        method.__name__ = self._name
        method.__qualname__ = f"{self._owner.__qualname__}.{self._name}"
        method.__module__ = self._owner.__module__
        annotations = {each.name: each.annotation for each in parameters}
        method.__annotations__ = annotations | {"return": taken.return_annotation}
        signature = taken.replace(parameters=[itself, *parameters])
        method.__signature__ = signature  # type: ignore[attr-defined]
        return method


def sentences(request: Callable[..., object]) -> dict[str, str]:
    """Return what stands below each field of a request in its source, by the field's name."""
    (written,) = ast.parse(inspect.getsource(request)).body
    found: dict[str, str] = {}
    name = None
    for node in written.body if isinstance(written, ast.ClassDef) else ():
        match node:
            case ast.AnnAssign(target=ast.Name(id=field)):
                name = field
            case ast.Expr(value=ast.Constant(value=str(text))) if name is not None:
                found[name] = " ".join(text.split())
                name = None
    return found


def uses(
    function: Callable[[], Callable[Concatenate[OpenRepo, P], R]], *, within: Within | None = None
) -> Method[P, R]:
    """Return a function of an open repository as a method, which runs `within` a context."""
    return Method(function, None, within)


def asks(
    request: Callable[[], Callable[P, Q]],
    function: Callable[[], Callable[[OpenRepo, Q], R]],
    *,
    within: Within | None = None,
) -> Method[P, R]:
    """Return a function that takes a request as a method that takes the request's fields."""
    return Method(function, request, within)
