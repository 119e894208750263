"""Options that several commands share, and the command class that takes the common ones.

Every command takes `--repo`, `--verbose`, `--quiet`, `--no-progress`, `--no-pager`, `--no-color`,
`--json-errors` and `--progress` after its name as well; they are listed in the help of
`havasu-vc` alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import wraps
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar
from urllib.parse import unquote, urlsplit

import click
from click.core import ParameterSource

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.invocation import PROGRESS, Invocation
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.store.object_urls import in_bucket

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = [
    "OUTPUT_FILE",
    "PLACE",
    "Command",
    "DiffForm",
    "RevisionCommand",
    "empty_message",
    "engine_option",
    "gathered",
    "join_message",
    "json_option",
    "karts_import_options",
    "may_ask_editor",
    "message_options",
    "needless_command",
    "no_edit_option",
    "output_option",
    "spatial_filter_option",
    "style_option",
    "styled_json",
    "tile_format_option",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_R = TypeVar("_R")


def gathered(kind: type) -> Callable[[Callable[..., _R]], Callable[..., _R]]:
    """Hand a command, as `options`, one value whose fields are options of the command line."""
    names = [each.name for each in fields(kind)]

    def decorate(function: Callable[..., _R]) -> Callable[..., _R]:
        @wraps(function)
        def call(*arguments: Any, **given: Any) -> _R:
            options = kind(**{name: given.pop(name) for name in names if name in given})
            return function(*arguments, options=options, **given)

        return call

    return decorate


class _Place(click.ParamType[Any]):
    """A path of this machine, or the URL of something in a bucket."""

    name = "place"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path | str:
        if isinstance(value, str) and in_bucket(value):
            return value
        text = str(value)
        return Path(unquote(urlsplit(text).path) if text.startswith("file://") else text)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class _OutputFile(click.Path):
    """The file that takes what would go to stdout, which to Kart that of an empty name is."""

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        return None if value == "" and is_called_kart() else super().convert(value, param, ctx)


PLACE = _Place()
OUTPUT_FILE = _OutputFile(path_type=Path)
_AFTER = "havasu_vc.after-dashes"
_FORMS = tuple([form] for form in PROGRESS)
_NUMBERS = ("-n", "--max-count", "--skip")
_STYLE = "havasu_vc.json-style"
_FROM_FILE = "havasu_vc.message-file"

_GO_FAR = ("clone", "fetch", "pull", "push")
JSON_STYLES = ("pretty", "compact", "extracompact")


def _update(context: click.Context, **changes: Any) -> None:
    if isinstance(context.obj, Invocation):
        context.obj = replace(context.obj, **changes)


def _setter(name: str, of_flag: bool) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def set_one(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if value and name == "quiet" and is_called_kart() and context.info_name in _GO_FAR:
            _update(context, progress=False)  # Kart's is of progress alone
        elif value:
            _update(context, **{name: of_flag})
        return value

    return set_one


def _set_folder(context: click.Context, parameter: click.Parameter, value: Path | None) -> None:
    if value is not None:
        _update(context, folder=value)


def _set_progress(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        _update(context, progress_form=value)


def _common_parameters() -> list[click.Parameter]:
    flags = (
        ("verbose", True),
        ("quiet", True),
        ("progress", False),
        ("pager", False),
        ("color", False),
    )
    parameters: list[click.Parameter] = [
        click.Option(
            # `git switch -q` is in many fingers; the other letters mean other things there.
            [f"--{'' if wanted else 'no-'}{name}", *(["-q"] if name == "quiet" else [])],
            is_flag=True,
            expose_value=False,
            hidden=True,
            callback=_setter(name, wanted),
        )
        for name, wanted in flags
    ]
    parameters += [
        click.Option(
            ["--json-errors"],
            is_flag=True,
            expose_value=False,
            hidden=True,
            callback=_setter("json_errors", True),
        ),
        click.Option(
            ["--progress"],
            type=click.Choice(PROGRESS),
            expose_value=False,
            hidden=True,
            callback=_set_progress,
        ),
    ]
    parameters.append(
        click.Option(
            ["--repo"],
            type=click.Path(path_type=Path),
            expose_value=False,
            hidden=True,
            callback=_set_folder,
        )
    )
    return parameters


class Command(click.Command):
    """A command that also takes the common options in their long form, and `-q`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Add the common options to those of the command."""
        super().__init__(*args, **kwargs)
        # In a raw docstring click's mark of a paragraph to leave alone is two characters.
        self.help = self.help and self.help.replace(r"\b", "\b")
        taken = {option for parameter in self.params for option in parameter.opts}
        self.params += [each for each in _common_parameters() if each.opts[0] not in taken]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read a bare `--progress`, as git and Kart have it, as `--progress auto`."""
        end = args.index("--") if "--" in args else len(args)
        for place, arg in enumerate(args[:end]):
            if arg == "--progress" and args[place + 1 : place + 2] not in _FORMS:
                args = [*args[:place], "--progress=auto", *args[place + 1 :]]
        return super().parse_args(ctx, args)


class RevisionCommand(Command):
    """A command that takes revisions, then filters; `--` stands between them where in doubt."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set what stands after `--` aside, read `-5` as `-n5`, and `--decorate main` as git."""
        if "--" in args:
            place = args.index("--")
            args, ctx.meta[_AFTER] = args[:place], tuple(args[place + 1 :])
        if any(option in parameter.opts for parameter in self.params for option in ("-n",)):
            before = ("", *args)  # of `-n -1`, the second is a value
            args = [
                f"-n{arg[1:]}" if _is_count(arg) and last not in _NUMBERS else arg
                for last, arg in zip(before, args, strict=False)
            ]
        for option in self.params:
            if isinstance(option, click.Option) and isinstance(option.type, click.Choice):
                args = list(_without_value(option, args, ctx))
        return super().parse_args(ctx, args)


def _without_value(
    option: click.Option, args: Sequence[str], context: click.Context
) -> Iterator[str]:
    """Yield arguments, where an option whose value may be left out takes none that it has not."""
    values = option.type.choices if isinstance(option.type, click.Choice) else ()
    for arg, following in zip_longest(args, args[1:]):
        alone = arg in option.opts and following not in values
        if alone and is_called_kart() and option.flag_value in values:
            listed = ", ".join(map(repr, values))
            # To Kart no value may be left out, and what follows is a wrong one.
            if following is None:
                raise click.BadOptionUsage(arg, f"Option {arg!r} requires an argument.", context)
            option.type.fail(f"{following!r} is not one of {listed}.", option, context)
        yield f"{arg}={option.flag_value}" if alone and option.flag_value in values else arg


def _is_count(argument: str) -> bool:
    return argument[:1] == "-" and argument[1:].isascii() and argument[1:].isdigit()


def after_dashes(context: click.Context) -> tuple[str, ...] | None:
    """Return the arguments after `--`; None when there was none."""
    found = context.meta.get(_AFTER)
    return found if isinstance(found, tuple) else None


def engine_option(function: _F) -> _F:
    """Add `--engine` and `--master`, which go into the invocation."""

    def set_engine(context: click.Context, parameter: click.Parameter, value: str) -> None:
        _update(context, engine=value)

    def set_master(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
        _update(context, master=value)

    function = click.option(
        "--master",
        metavar="URL",
        expose_value=False,
        callback=set_master,
        help="Where Spark runs, as spark://HOST:7077, yarn or local[4]; implies --engine spark.",
    )(function)
    return click.option(
        "--engine",
        type=click.Choice(("auto", "local", "spark")),
        default="auto",
        show_default=True,
        expose_value=False,
        callback=set_engine,
        help="Where the work runs; auto takes Spark when the input is large.",
    )(function)


def style_option(function: _F) -> _F:
    """Add `--json-style`."""

    def of_format(context: click.Context, parameter: click.Parameter, value: str) -> str:
        source = context.get_parameter_source("json_style")
        given = context.meta.get(_STYLE)
        return value if source is ParameterSource.COMMANDLINE or given is None else str(given)

    return click.option(
        "--json-style",
        type=click.Choice(JSON_STYLES),
        default="pretty",
        show_default=True,
        callback=of_format,
        help="How JSON is laid out.",
    )(function)


class _Form(click.Choice[str]):
    """A form of what is printed; JSON may be followed by its style, as `json:compact`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        form, _, style = str(value).partition(":")
        if form == "json" and style in JSON_STYLES and form in self.choices:
            if ctx is not None:
                ctx.meta[_STYLE] = style
            return form
        return super().convert(value, param, ctx)


class DiffForm(click.Choice[str]):
    """A form of what is printed, as Kart spells it where this program is Kart."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the form; Kart takes a style of JSON lines, which they have not, and none."""
        name, _, style = str(value).partition(":")
        lines = name == "json-lines" and style in JSON_STYLES
        if is_called_kart() and (lines or not style) and name in self.choices:
            value = name
        return super().convert(value, param, ctx)


def output_option(function: _F) -> _F:
    """Add `--output`, the file that takes what would go to stdout."""
    return click.option(
        "--output",
        metavar="FILE",
        type=OUTPUT_FILE,
        help="Write to FILE instead of stdout.",
    )(function)


def spatial_filter_option(function: _F) -> _F:
    """Add `--spatial-filter`, the area whose rows a working copy has."""
    return click.option(
        "--spatial-filter",
        "spatial_filter",
        metavar="SPEC",
        help="Have only rows in the working copy whose geometry meets an area: CRS;POLYGON((...)), "
        "CRS;WEST,SOUTH,EAST,NORTH, @FILE, or a ref or object id that has such; `none` for all.",
    )(function)


def format_option(*formats: str, help: str = "The form of what is printed.") -> Callable[[_F], _F]:
    """Add `-o`, the form of what is printed."""
    return click.option(
        "-o",
        "--output-format",
        "output_format",
        type=_Form(formats),
        default=formats[0],
        show_default=True,
        help=help,
    )


def styled_json(context: click.Context, value: object) -> str:
    """Return JSON in the style that was asked for with `-o`, as `json:compact`."""
    from havasu_vc.writers.json_style import LAYOUTS
    from havasu_vc.writers.protocol import JsonStyle

    return LAYOUTS[JsonStyle(context.meta.get(_STYLE, JSON_STYLES[0]))].dumps(value)


def json_option(function: _F) -> _F:
    """Add `-o`, by which `Invocation.result` prints what came of a command as JSON."""

    def set_json(context: click.Context, parameter: click.Parameter, value: str) -> None:
        if value == "json":
            _update(context, json=context.meta.get(_STYLE, JSON_STYLES[0]))

    return click.option(
        "-o",
        "--output-format",
        type=_Form(("text", "json")),
        default="text",
        show_default=True,
        expose_value=False,
        callback=set_json,
        help="The form of what is printed.",
    )(function)


_MESSAGE = "'--message' / '-m'"
_OWN_MESSAGE = ("import", "merge", "table-import")
"""Commands that Kart has make up a message where the one that is given is empty."""
_ONE_MESSAGE = (*_OWN_MESSAGE, "init", "meta set", "commit-files")
"""Commands of which Kart takes one message, the last, and no paragraphs."""


def tile_format_option(function: _F) -> _F:
    """Add Kart's option of how files of tiles are committed, of which a table has none."""
    return click.option(
        "--convert-to-dataset-format/--no-convert-to-dataset-format",
        expose_value=False,
        hidden=True,
    )(function)


def message_options(function: _F) -> _F:
    """Add `-m` and `-F`, the message of the commit, which is one value of both."""

    def keep(context: click.Context, parameter: click.Parameter, file: TextIO | None) -> None:
        context.meta[_FROM_FILE] = None if file is None else file.read()

    def join(
        context: click.Context, parameter: click.Parameter, value: Sequence[str]
    ) -> str | None:
        if is_called_kart() and context.command_path.partition(" ")[2] in _ONE_MESSAGE:
            value = value[-1:]
        if is_called_kart() and context.info_name in _OWN_MESSAGE and not any(value):
            value = ()  # the message is then the one that it makes up
        waits = is_called_kart() and context.info_name == "commit"
        return join_message(value, context.meta[_FROM_FILE], empty=waits)

    function = click.option(
        "-F",
        "--message-file",
        metavar="FILE",
        type=click.File(encoding="utf-8"),
        is_eager=True,
        expose_value=False,
        callback=keep,
        help="Take the message from FILE; - is stdin.",
    )(function)
    return click.option(
        "-m",
        "--message",
        metavar="TEXT",
        multiple=True,
        callback=join,
        help="The message; given several times, its paragraphs.",
    )(function)


def join_message(
    paragraphs: Sequence[str], text: str | None = None, *, empty: bool = False
) -> str | None:
    """Return the message that `-m` and `-F` give, `empty` perhaps; None when neither is there."""
    if paragraphs and text is not None:
        raise InvalidArgumentError("-m and -F cannot be given together")
    message = "\n\n".join(_said(each).strip("\n") for each in paragraphs) if paragraphs else text
    if message is None:
        return None
    message = message.replace("\r\n", "\n").strip()
    if not (message or empty):
        raise empty_message()
    return message


def empty_message() -> InvalidArgumentError:
    """Return the error of a message without a word."""
    return InvalidArgumentError("the message is empty; nothing is committed")


def _said(paragraph: str) -> str:
    """Return a paragraph, which stands in a file where Kart's `@FILE` names one."""
    if not (is_called_kart() and paragraph.startswith("@")):
        return paragraph
    path = Path(paragraph[1:])
    try:
        if paragraph == "@-":
            return sys.stdin.read().strip()
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is no text"
        raise click.BadParameter(f"{str(path)!r}: {why}", param_hint=_MESSAGE) from error


# Commands that Kart has and that nothing is left to do for here: they say so, and succeed.


def no_edit_option(function: _F) -> _F:
    """Add git's `--no-edit` and Kart's word for it, which scripts give wherever git asks."""
    told = "Ask no editor for a message: only merges do, called kart."
    names = ("--no-edit", "--no-editor")
    return click.option(*names, is_flag=True, expose_value=False, callback=_note, help=told)(
        function
    )


_NO_EDITOR = "havasu_vc.no-editor"


def _note(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.meta[_NO_EDITOR] = value


def may_ask_editor() -> bool:
    """Return whether the command that runs was not told to ask no editor."""
    return not click.get_current_context().meta.get(_NO_EDITOR)


def karts_import_options(command: _F) -> _F:
    """Give a command Kart's options of how its import works, which change nothing here."""
    workers = click.option(
        "--num-workers",
        "--num-processes",
        type=int,
        expose_value=False,
        help="As in Kart; how a table is read does not follow it.",
    )
    depth = click.option(
        "--max-delta-depth",
        type=int,
        expose_value=False,
        help="As in Kart; how objects are packed does not follow it.",
    )
    return workers(depth(command))


def needless_command(name: str, why: str, parts: Sequence[str] | None = None) -> click.Command:
    """Return a command that takes any arguments and does nothing but say why.

    Where it has `parts`, the first argument is one of them.
    """

    @click.command(
        name,
        cls=Command,
        hidden=True,
        help=f"Do nothing: {why}.",
        context_settings={"ignore_unknown_options": True},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    @click.pass_obj
    def command(invocation: object, arguments: tuple[str, ...]) -> None:
        from havasu_vc.cli.invocation import Invocation

        named = arguments[0] if arguments and not arguments[0].startswith("-") else None
        if parts is not None and named is not None and named not in parts:
            raise click.UsageError(f"{name} has no command {named!r}")
        if name == "helper" and is_called_kart():
            from havasu_vc.cli.kart.lfs import require_helper

            require_helper(arguments)
        if parts is not None and is_called_kart() and isinstance(invocation, Invocation):
            from havasu_vc.cli.kart.lfs import run

            if named is None:
                raise click.UsageError("Missing command.")
            if run(invocation, arguments):
                return
        if isinstance(invocation, Invocation):
            invocation.note(f"nothing is to be done: {why}")

    return command
