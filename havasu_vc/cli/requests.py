"""Options of a command that are the fields of its request.

    @click.command("grep", cls=RevisionCommand)
    @click.argument("text", metavar="VALUE")
    @takes(SeekRequest, regex=Spelt("-E"), columns=NAMES, without=("revision", "filters"))
    @click.pass_context
    def command(context: click.Context, /, request: SeekRequest) -> None: ...

A field is an option: its type says what the option takes, its default what holds without, and
the sentence below it in the source is the help. So an option more is a field more. What is
spelt otherwise than the field, or is read from text in a way of its own, is `Spelt`; fields
that are arguments of the command, or that it fills by itself, stand in `without`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, replace
from enum import Enum
from functools import cache, wraps
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from havasu_vc.cli.arguments import parse_names, parse_policy
from havasu_vc.cli.completing import Completer
from havasu_vc.methods import sentences
from havasu_vc.records import dataclass

__all__ = ["DRY_RUN", "NAMES", "POLICY", "RequestOption", "Spelt", "takes", "without_it"]

_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class Spelt:
    """An option that differs from its field."""

    names: str = ""
    """Its names, with spaces between; the field's where there are none."""
    metavar: str | None = None
    """The word for its value in the help."""
    type: click.ParamType[Any] | None = None
    """The values that it takes, where the field's type does not tell."""
    parse: Callable[[Any], Any] | None = None
    """Makes the field's value of the option's."""
    multiple: bool | None = None
    """Whether it may be repeated; None where the field's type tells."""
    show_default: bool = False
    """Whether the help tells the default."""
    help: str | None = None
    """The help, where the field's sentence is not it."""
    flags: Mapping[str, str] | None = None
    """The values, each an option of its own with this help, where it is one of several flags."""
    alone: str | None = None
    """The value that it has where it is given without one."""
    shell_complete: Completer | None = None
    """Completes its value."""


def without_it(given: bool) -> bool:
    """Make the value of a field of a flag that says the opposite."""
    return not given


NAMES = Spelt(metavar="COLUMN,...", multiple=True, parse=parse_names)
"""A list of columns."""
DRY_RUN = Spelt("-n --dry-run")
"""Telling alone."""
POLICY = Spelt("-X", metavar="POLICY", multiple=True, parse=parse_policy)
"""How conflicts are decided by whoever does not look at them."""
_PLAIN = Spelt()
_TYPES: dict[str, click.ParamType[Any] | None] = {
    "str": click.STRING, "int": click.INT, "float": click.FLOAT, "bool": None
}  # fmt: skip


@cache
def _sentences(request: type) -> dict[str, str]:
    return sentences(request)


class RequestOption(click.Option):
    """An option that is a field of a request."""

    def __init__(
        self, request: type, field: Field[Any], spelt: Spelt, *, means: str | None = None
    ) -> None:
        """Make the option; one of several flags `means` a value of the field."""
        self.request = request
        self.parse = spelt.parse
        written = str(field.type).removesuffix(" | None")
        listed = written.startswith("Sequence[")
        plain = written.removeprefix("Sequence[").removesuffix("]") if listed else written
        if spelt.type is None and spelt.parse is None and plain not in _TYPES:
            raise TypeError(f"{request.__name__}.{field.name}: {written} wants a type or a parser")
        default = None if field.default is MISSING else field.default
        default = default.value if isinstance(default, Enum) else default
        one_flag: dict[str, Any] = {} if means is None else {"flag_value": means}
        if spelt.alone is not None:
            one_flag = {"is_flag": False, "flag_value": spelt.alone}
        names = spelt.names.split() or [f"--{field.name.replace('_', '-')}"]
        kind = spelt.type or _TYPES.get(plain)
        flag = plain == "bool" and spelt.parse in (None, without_it) and spelt.type is None
        if spelt.parse is without_it:
            default = False
        super().__init__(
            [field.name, *names],
            **({"is_flag": flag or None} | one_flag),
            shell_complete=spelt.shell_complete,
            type=kind,
            multiple=listed if spelt.multiple is None else spelt.multiple,
            default=default if (flag or spelt.show_default) and means is None else None,
            show_default=spelt.show_default,
            metavar=spelt.metavar,
            help=spelt.help,
        )

    @property
    def help(self) -> str | None:
        """The sentence of the field; the source is read when it is asked for."""
        return self._help or _sentences(self.request).get(self.name or "")

    @help.setter
    def help(self, value: str | None) -> None:
        self._help = value


def takes(
    request: type,
    part: str | None = None,
    *,
    whole: bool = False,
    without: tuple[str, ...] = (),
    **spelt: Spelt,
) -> Callable[[Callable[..., _R]], Callable[..., _R]]:
    """Hand a command its `request`, with the fields that are options or arguments of it.

    What is not given keeps the default of the field; a field that has none and that the
    command fills by itself is None until then. With `part` it is a value that stands in that
    field of a request, and None where nothing of it is given, unless it is `whole`.
    """
    members = {each.name: each for each in fields(request)}
    options = {
        name: _options(request, each, spelt.get(name, _PLAIN))
        for name, each in members.items()
        if name not in without
    }
    if unknown := {*spelt, *without} - set(members):
        raise TypeError(f"{request.__name__} has no {', '.join(sorted(unknown))}")

    def decorate(function: Callable[..., _R]) -> Callable[..., _R]:
        @wraps(function)
        def call(*arguments: Any, **given: Any) -> _R:
            context = click.get_current_context()
            said: dict[str, Any] = {}
            for name in (options if part else members).keys() & given.keys():
                value = given.pop(name)
                if name not in options:
                    said[name] = value
                elif _is_given(context, name, value, options[name]):
                    parse = options[name][0].parse
                    said[name] = value if parse is None else parse(value)
            made = None
            if said or whole or part is None:
                lacking = {name: None for name, each in members.items() if _is_required(each)}
                made = request(**lacking | said)
            return function(*arguments, **{part or "request": made}, **given)

        parameters = getattr(call, "__click_params__", [])
        parameters.extend(
            option for each in reversed(options.values()) for option in reversed(each)
        )
        call.__click_params__ = parameters  # type: ignore[attr-defined]
        return call

    return decorate


def _options(request: type, field: Field[Any], spelt: Spelt) -> list[RequestOption]:
    """Return the option of a field, or one for each of its flags."""
    if spelt.flags is None:
        return [RequestOption(request, field, spelt)]
    return [
        RequestOption(request, field, replace(spelt, names=f"--{each}", help=text), means=each)
        for each, text in spelt.flags.items()
    ]


def _is_given(
    context: click.Context, name: str, value: Any, options: Sequence[RequestOption]
) -> bool:
    if len(options) > 1:
        return value is not None  # of several flags, the source is that of the last alone
    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING
