"""Options of commands that are fields of requests: made of them, and none written beside."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from havasu_vc import Repo
from havasu_vc.checkouts.workspace import Workspace
from havasu_vc.cli.arguments import parse_names
from havasu_vc.cli.main import COMMANDS, cli
from havasu_vc.cli.options import Command
from havasu_vc.cli.requests import NAMES, RequestOption, Spelt, takes
from havasu_vc.methods import Method
from havasu_vc.records import dataclass

PACKAGE = Path(__file__).parents[2] / "havasu_vc"
SHARED = {
    "--help",
    "--engine",
    "--master",
    "--output-format",
    "--message",
    "--message-file",
    "--no-edit",
    "--no-editor",
    "--output",
}
"""Options of many commands, which `cli.options` has."""

_GOES_ON = "git's word for what waits since an earlier call; it has a method of its own"
_GITS_OWN = "goes to `git push` as it is, in the field `options`"
_GITS_FETCH = "goes to `git fetch` as it is, in the field `options`"
_NAMES_IT = "says which branch or commit the arguments mean"
_FORM = "a form of what is printed, of which the last counts"
_SORTED = "Kart's, and does nothing"
_CONDITION = "makes a part of the field `filters`"
BESIDE = {
    "checkout --discard-changes": "of whichever of its requests is meant",
    "checkout --guess": _NAMES_IT,
    "checkout --not-dataset": "a setting of the working copy, which has a method of its own",
    "checkout --relocate": "has a method of its own",
    "checkout --spatial-filter": "`cli.options` has it; a setting of the working copy",
    "checkout --to": "the place of tables elsewhere, which have a method of their own",
    "checkout -b": _NAMES_IT,
    "clean --force": "without it and -n nothing is removed",
    "clone --checkout": "what the command does after a clone",
    "clone --kart": "its default is how the program is called",
    "clone --spatial-filter": "`cli.options` has it; a setting of the working copy",
    "clone --spatial-filter-after-clone": "with --spatial-filter it makes `on_demand`",
    "clone --workingcopy-location": "what the command does after a clone",
    "commit --amend": "what the command does around a commit",
    "commit --box": _CONDITION,
    "commit --no-verify": "has a method of its own",
    "commit --where": _CONDITION,
    "diff --from": "the place of edits elsewhere, which have a method of their own",
    "diff --sort-keys": _SORTED,
    "log --json-style": "`cli.options` has it",
    "log --name-only": _FORM,
    "log --name-status": _FORM,
    "log --patch": _FORM,
    "log --shortstat": _FORM,
    "log --stat": _FORM,
    "show --sort-keys": _SORTED,
    "stash show --sort-keys": _SORTED,
    "apply --amend": "what the command does around a commit",
    "fetch --all": "asks once for each remote",
    "fetch --depth": _GITS_FETCH,
    "fetch --dry-run": _GITS_FETCH,
    "fetch --prune": _GITS_FETCH,
    "fetch --tags": _GITS_FETCH,
    "fetch --unshallow": _GITS_FETCH,
    "fetch --verbose": _GITS_FETCH,
    "head -n": "how much of the answer is printed",
    "switch --create": _NAMES_IT,
    "switch --detach": _NAMES_IT,
    "switch --force-create": _NAMES_IT,
    "switch --guess": _NAMES_IT,
    "cherry-pick --abort": _GOES_ON,
    "cherry-pick --continue": _GOES_ON,
    "cherry-pick --skip": _GOES_ON,
    "convert --geometry": "has a method of its own",
    "export --ref": "without it the revision is that of DATASET@REV",
    "export --changes": "has a method of its own",
    "export --key": "of rasters, which have a method of their own",
    "export --list-formats": "lists formats, and exports nothing",
    "export --tiles-apart": "of rasters, which have a method of their own",
    "grep -e": "the same VALUE, where it begins with a dash",
    "grep -F": "git's word for what holds without it",
    "grep --count": "a form of what is printed",
    "grep --name-only": "a form of what is printed",
    "import --dataset-path": "names the `destination` of a single layer, as Kart does",
    "import --list": "lists layers, and imports nothing",
    "import --list-formats": "lists formats, and imports nothing",
    "import --no-primary-key": "with --primary-key it makes the field `primary_key`",
    "import --max-delta-depth": "without effect: it is there for Kart's scripts",
    "import --num-processes": "without effect: it is there for Kart's scripts",
    "import --primary-key": "`auto` makes `find_key`, columns make `primary_key`",
    "merge --ff": "with --ff-only and git's settings it makes the field `fast_forward`",
    "merge --ff-only": "with --ff and git's settings it makes the field `fast_forward`",
    "merge --fail-on-conflict": "what the command does with a result",
    "merge --continue": _GOES_ON,
    "merge --abort": _GOES_ON,
    "push --all": _GITS_OWN,
    "push --atomic": _GITS_OWN,
    "push --delete": _GITS_OWN,
    "push --follow-tags": _GITS_OWN,
    "push --force": _GITS_OWN,
    "push --force-with-lease": _GITS_OWN,
    "push --mirror": _GITS_OWN,
    "push --no-verify": _GITS_OWN,
    "push --porcelain": "says how the result is told",
    "push --verbose": "says how the result is told",
    "push --set-upstream": _GITS_OWN,
    "push --tags": _GITS_OWN,
    "rebase --root": "says which of the arguments is meant",
    "rebase --interactive": "is refused with a hint",
    "rebase --continue": _GOES_ON,
    "rebase --skip": _GOES_ON,
    "rebase --abort": _GOES_ON,
    "revert --abort": _GOES_ON,
    "revert --continue": _GOES_ON,
    "revert --skip": _GOES_ON,
    "spatial-filter index --all": "is what no COMMIT means",
}
"""Options of a command with a request that are no field of it, and why."""

NO_OPTIONS = {
    "BrokenRequest": "`check` asks for it by its one argument",
    "CheckoutToRequest": "the options are those of `CheckoutRequest`, with a folder",
    "DiffRequest": "its fields are arguments, or told by the form that is printed",
    "FileChangesRequest": "`diff` and `show` ask for it beside, by the same arguments",
    "PageRequest": "the face alone shows pages of rows",
    "ReviewRequest": "the options are those of `ReviewOptionsRequest`, whatever the form",
    "SequenceRequest": "the options are those of `PickRequest`, for one commit or several",
    "ShowRequest": "its fields are arguments, or told by the form that is printed",
    "TableCommitRequest": "the options are those of `CopyCommitRequest`, whose FILE is a table",
}
"""Requests that no command has as options, and why."""


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cli)

    def below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        yield name, command
        for child, each in command.commands.items() if isinstance(command, click.Group) else ():
            yield from below(f"{name} {child}", each)

    for name in COMMANDS:
        top = cli.get_command(context, name)
        assert top is not None
        yield from below(name, top)


def options(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option) and not each.hidden]


def longest(option: click.Option) -> str:
    return max(option.opts, key=len)


WITH_REQUEST = {
    name: command
    for name, command in commands()
    if any(isinstance(option, RequestOption) for option in options(command))
}


def test_an_option_of_a_command_with_a_request_is_a_field_of_it() -> None:
    beside = {
        f"{name} {longest(option)}"
        for name, command in WITH_REQUEST.items()
        for option in options(command)
        if not isinstance(option, RequestOption) and longest(option) not in SHARED
    }

    assert beside == set(BESIDE)


def test_a_command_takes_each_request_of_the_library() -> None:
    asked = {
        method.request()
        for method in (*vars(Repo).values(), *vars(Workspace).values())
        if isinstance(method, Method) and method.request is not None
    }
    taken = {
        option.request
        for command in WITH_REQUEST.values()
        for option in options(command)
        if isinstance(option, RequestOption)
    }

    assert {request.__name__ for request in asked - taken} == set(NO_OPTIONS)


def test_a_field_has_a_sentence_that_is_the_help() -> None:
    for command in WITH_REQUEST.values():
        for option in options(command):
            if isinstance(option, RequestOption):
                assert option.help, f"{command.name} {option.opts}"
                assert option.help[-1] in ".]", f"{command.name} {option.opts}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of every type of field."""

    place: str
    """The place."""
    text: str | None = None
    """Some text."""
    plainly: bool = False
    """Do it plainly."""
    linked: bool | None = None
    """Link it, or copy it."""
    most: int | None = None
    """At most so many."""
    order: str = "key"
    """The order."""
    each: Sequence[str] = ()
    """One of several."""
    columns: Sequence[str] = ("all",)
    """These columns."""
    filled: int = 7
    """Made by the command."""


def asked(*arguments: str) -> Asked:
    """Return what a command was handed."""
    made: list[Asked] = []

    @click.command("ask", cls=Command)
    @click.argument("place")
    @takes(
        Asked,
        linked=Spelt("--link/--copy"),
        most=Spelt("-n --most", type=click.IntRange(0)),
        order=Spelt(type=click.Choice(("key", "hilbert")), show_default=True),
        columns=NAMES,
        without=("place", "filled"),
    )
    def ask(request: Asked) -> None:
        made.append(request)

    done = CliRunner().invoke(ask, arguments, catch_exceptions=False)
    if done.exit_code:
        raise click.UsageError(done.output)
    return made[0]


def test_a_request_is_made_of_what_is_given() -> None:
    assert asked("here") == Asked("here")
    assert asked("here", "--text", "", "--plainly", "-n5") == Asked("here", "", True, most=5)
    assert [asked("h", flag).linked for flag in ("--link", "--copy")] == [True, False]
    assert asked("h", "--each", "a", "--each", "b,c").each == ("a", "b,c")
    assert asked("h", "--columns", "a,b", "--columns", "c").columns == ("a", "b", "c")
    assert asked("h", "--order", "hilbert").order == "hilbert"


@pytest.mark.parametrize(
    "wrong", [("--most", "x"), ("--most", "-1"), ("--order", "odd"), ("--filled", "1"), ("--tex",)]
)
def test_what_a_field_does_not_take_is_refused(wrong: Sequence[str]) -> None:
    with pytest.raises(click.UsageError):
        asked("here", *wrong)


def test_a_field_of_another_type_says_how_it_is_read() -> None:
    @dataclass(frozen=True, slots=True)
    class Odd:
        place: complex | None = None

    with pytest.raises(TypeError, match="complex wants a type or a parser"):
        takes(Odd)
    with pytest.raises(TypeError, match="Asked has no nothing"):
        takes(Asked, columns=Spelt(parse=parse_names), without=("nothing",))


NOTHING_TO_DO = {"sort_keys", "follow"}
"""Options that ask for what is done anyway."""


def test_no_option_is_swallowed() -> None:
    """What a command takes is read by it, or is a field of a request that the library reads."""
    read = {
        node.attr
        for module in PACKAGE.rglob("*.py")
        if module.name != "requests.py" or "cli" in module.parts
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    swallowed, count = set(), 0
    for name, command in commands():
        if command.callback is None:
            continue
        function = inspect.unwrap(command.callback)
        tree = ast.parse(Path(inspect.getfile(function)).read_text("utf-8"))
        here: set[object] = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        here |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        parameters = inspect.signature(function).parameters.values()
        passed_on = any(each.kind is each.VAR_KEYWORD for each in parameters)
        given = [each for each in command.params if isinstance(each, RequestOption)]
        fields = {field for each in given for field in names_of_fields(each.request)}
        for option in command.params:
            if option.name is None or not option.expose_value:
                continue
            count += 1
            if isinstance(option, RequestOption) or option.name in fields:
                known = option.name in read
            else:
                known = passed_on or option.name in here
            if not known and option.name not in NOTHING_TO_DO:
                swallowed.add(f"{name} {option.name}")

    assert count > 400
    assert swallowed == set()


def names_of_fields(request: type) -> set[str]:
    return {field.name for field in dataclasses.fields(request)}
