"""Use cases as methods: a function of a package, spelt once, bound to what is open.

    class Repo:
        status = uses(lambda: looking.status)
        log = asks(lambda: looking.LogRequest, lambda: looking.log)

A method takes what the function takes after what is `opened`, or what the request has as
fields, with their types, names and defaults: type checkers see them, and so do `help` and
`inspect.signature`. Whoever holds a request already hands it over whole, as the command line does:
`repo.log.by(request)`. The function is looked up when the method is called, and what it needs is
loaded then.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Concatenate, Generic, Never, ParamSpec, Protocol, TypeVar, overload

__all__ = ["Bound", "Method", "asks", "sentences", "uses"]

H = TypeVar("H")
H_co = TypeVar("H_co", covariant=True)
P = ParamSpec("P")
Q = TypeVar("Q")
R = TypeVar("R")
Within = Callable[[H], AbstractContextManager[None]]


class _Opened(Protocol[H_co]):
    """The object that has the methods."""

    @property
    def opened(self) -> H_co: ...


class Bound(Generic[H, P, Q, R]):
    """A use case of one object."""

    def __init__(self, method: Method[H, P, Q, R], opened: H) -> None:
        self._method = method
        self._opened = opened

    def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R:
        """Do it by what the function takes, or by the fields of its request."""
        made = self._method.request
        if made is not None:
            return self.by(made()(*arguments, **keywords))
        with self._method.within(self._opened):
            return self._method.function()(self._opened, *arguments, **keywords)

    def by(self, request: Q) -> R:
        """Do it by a request that is made already."""
        with self._method.within(self._opened):
            return self._method.function()(self._opened, request)


class Method(Generic[H, P, Q, R]):
    """A use case that is called as a method."""

    def __init__(
        self,
        function: Callable[[], Callable[..., R]],
        request: Callable[[], Callable[P, Q]] | None,
        within: Within[H] | None,
    ) -> None:
        self.function = function
        self.request = request
        self.within = within or (lambda _: nullcontext())

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self._owner = owner

    @overload
    def __get__(self, holder: None, owner: type) -> Callable[Concatenate[Any, P], R]: ...
    @overload
    def __get__(self, holder: _Opened[H], owner: type) -> Bound[H, P, Q, R]: ...
    def __get__(self, holder: _Opened[H] | None, owner: type) -> Any:
        return self._documented() if holder is None else Bound(self, holder.opened)

    def _documented(self) -> Callable[..., R]:
        """Return the method as a function of the class, as people and programs look at it."""
        function = self.function()
        taken = inspect.signature(function)
        parameters = list(taken.parameters.values())[1:]
        text = inspect.getdoc(function) or ""
        if self.request is not None:
            request = self.request()
            parameters = list(inspect.signature(request).parameters.values())
            said = "\n".join(f"{name}: {each}" for name, each in sentences(request).items())
            text = f"{text}\n\n{said}"
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)

        def method(self: _Opened[H], /, *arguments: Any, **keywords: Any) -> R:
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
    function: Callable[[], Callable[Concatenate[H, P], R]], *, within: Within[H] | None = None
) -> Method[H, P, Never, R]:
    """Return a function of what is open as a method, which runs `within` a context."""
    return Method(function, None, within)


def asks(
    request: Callable[[], Callable[P, Q]],
    function: Callable[[], Callable[[H, Q], R]],
    *,
    within: Within[H] | None = None,
) -> Method[H, P, Q, R]:
    """Return a function that takes a request as a method that takes the request's fields."""
    return Method(function, request, within)
