"""What a program calls is spelt out: parameters have a name and a type, and no others are taken."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import havasu_vc
import havasu_vc.repo
import havasu_vc.spark
from havasu_vc import Repo
from havasu_vc.checkouts.requests import CheckoutToRequest, WorkspaceCommitRequest
from havasu_vc.checkouts.workspace import Workspace
from havasu_vc.looking.requests import LogRequest
from havasu_vc.looking.tables import Table
from havasu_vc.merging.requests import MergeRequest
from havasu_vc.merging.resolving import Resolution
from havasu_vc.methods import Method, sentences
from havasu_vc.sharing.requests import PushRequest
from havasu_vc.transfer.requests import ImportRequest
from havasu_vc.upkeep.requests import OptimizeRequest, RepairRequest
from tests.repo.points import make

EXPORTED = (havasu_vc, havasu_vc.repo, havasu_vc.spark)
HANDED_OUT = (Table, Workspace)
"""What methods of the exported return, and has methods of its own."""


def functions_of(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public functions of a class, its own and those it inherits."""
    for name in dir(kind):
        if name.startswith("_") and name != "__init__":
            continue
        found = inspect.getattr_static(kind, name)
        if isinstance(found, Method):
            found = getattr(kind, name)
        if isinstance(found, property):
            found = found.fget
        if isinstance(found, staticmethod | classmethod):
            found = found.__func__
        if inspect.isfunction(found) and found.__module__.startswith("havasu_vc"):
            yield f"{kind.__name__}.{name}", found


def public() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    kinds = list(HANDED_OUT)
    for module in EXPORTED:
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value):
                kinds.append(value)
            elif inspect.isfunction(value):
                found[f"{module.__name__}.{name}"] = value
    for kind in kinds:
        found |= dict(functions_of(kind))
    return found


PUBLIC = public()


def test_the_walk_finds_what_programs_call() -> None:
    assert {"Repo.merge", "Repo.log", "Repo.import_", "Table.to_arrow"} <= set(PUBLIC)
    assert {"Workspace.check_out", "havasu_vc.spark.read", "Settings.open_engine"} <= set(PUBLIC)
    assert len(PUBLIC) > 100


@pytest.mark.parametrize("name", PUBLIC)
def test_parameters_are_spelt_out_and_typed(name: str) -> None:
    function = PUBLIC[name]
    parameters = list(inspect.signature(function).parameters.values())
    if "." in name and not name.startswith("havasu_vc."):
        del parameters[0]  # the object itself
    for parameter in parameters:
        assert parameter.kind is not parameter.VAR_KEYWORD, f"{name} takes any keyword"
        assert parameter.annotation is not parameter.empty, f"{name} has no type for {parameter}"
    if not name.endswith("__init__"):
        assert "return" in typing.cast(Any, function).__annotations__, f"{name} returns anything"


@pytest.mark.parametrize("name", [name for name in PUBLIC if name.startswith("Repo.")])
def test_an_unknown_keyword_is_named(name: str) -> None:
    if isinstance(inspect.getattr_static(Repo, name.removeprefix("Repo."), None), property):
        return
    with pytest.raises(TypeError, match="'auther'"):
        inspect.signature(PUBLIC[name]).bind_partial(auther="x")


WITHOUT_REQUEST = {
    "Repo.init": "makes the object that has the methods",
    "Repo.resolve_conflicts": "its request is `Resolution`, beside what is resolved",
    "Workspace.create_living": "two options, beside where it goes",
    "Workspace.require_no_loss": "asked by commands that move HEAD, and by no person",
}
"""Methods of `Repo` and its workspace with several options outside of a request, and why."""


def test_a_method_with_several_options_takes_a_request() -> None:
    without = set()
    for kind, name in [(each, name) for each in (Repo, Workspace) for name in vars(each)]:
        raw = inspect.getattr_static(kind, name)
        if name.startswith("_") or (isinstance(raw, Method) and raw.request is not None):
            continue
        function = PUBLIC.get(f"{kind.__name__}.{name}")
        if function is not None:
            parameters = inspect.signature(function).parameters.values()
            if sum(each.default is not each.empty for each in parameters) > 2:
                without.add(f"{kind.__name__}.{name}")

    assert without == set(WITHOUT_REQUEST)


def test_help_tells_every_field_of_a_request() -> None:
    text = pydoc.plain(pydoc.render_doc(Repo))
    assert "log(self, revision: 'str' = 'HEAD', filters: 'Sequence[str]' = ()" in text
    for request in (ImportRequest, LogRequest, MergeRequest, PushRequest, RepairRequest):
        told = sentences(request)
        assert list(told) == [field.name for field in dataclasses.fields(request)]
        for name, sentence in told.items():
            assert f"{name}: {sentence}" in text


def test_a_word_that_is_misspelt_is_not_ignored(tmp_path: Path) -> None:
    repo: Any = make(tmp_path / "repo", {1: ("one", 1)})
    head = repo.head().commit
    with pytest.raises(TypeError, match="'auther'"):
        repo.log(auther="x")
    with pytest.raises(TypeError, match="'squosh'"):
        repo.merge("main", squosh=True)
    with pytest.raises(TypeError, match="'dryrun'"):
        repo.restore(dryrun=True)
    assert repo.head().commit == head


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        (Repo.merge, MergeRequest),
        (Repo.log, LogRequest),
        (Repo.push, PushRequest),
        (Repo.optimize, OptimizeRequest),
        (Repo.resolve_conflicts, Resolution),
        (Workspace.check_out_to, CheckoutToRequest),
        (Workspace.commit, WorkspaceCommitRequest),
    ],
)
def test_a_method_takes_what_its_request_has(
    method: Callable[..., Any], request_: type[Any]
) -> None:
    """A field that a request gets, with its default, the method has as well."""
    parameters = inspect.signature(method).parameters
    for field in dataclasses.fields(request_):
        parameter = parameters[field.name]
        if field.default is not dataclasses.MISSING:
            assert parameter.default == field.default, field.name
    named = {field.name for field in dataclasses.fields(request_)}
    assert set(parameters) - named <= {"self", "filters", "folder"}
