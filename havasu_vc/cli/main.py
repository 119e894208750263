"""The entry point: a group of commands, each loaded only when it is called.

`havasu-vc version` and `--help` must be quick, so neither this module nor what it
imports touches pyarrow, pygit2, numpy or rich: the list of commands, with the line
that says what each does, is a table here (a test keeps it true).
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, cast

import click

from havasu_vc import __version__
from havasu_vc.cli.as_kart import is_called_kart, stands_in
from havasu_vc.cli.errors import BROKEN_PIPE, report
from havasu_vc.cli.invocation import PROGRESS, Invocation, load_libraries, wants_color
from havasu_vc.cli.standard_streams import prepare_process

__all__ = ["COMMANDS", "cli", "main"]

PROGRAM = "havasu-vc"
KART_VERSION = "0.17"
"""The version of Kart whose command line this is, where it is called `kart`."""
_TAKEN_APART = frozenset({"_duckdb", "coverage", "pyspark"})
"""Libraries that have something to do after all else."""
COMPLETE_VARIABLE = "_HAVASU_VC_COMPLETE"
"""By this variable a shell asks for completions."""

COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "init": ("init", "Make a repository"),
        "clone": ("clone", "Clone a repository with its data"),
        "import": ("import_", "Take tables in from files and commit them"),
        "export": ("export", "Write a dataset, or its changes, to a file"),
        "checkout": ("checkout", "Make tables of the datasets, or switch to a revision"),
        "create-workingcopy": (
            "workingcopies",
            "Make the GeoPackage that editors edit, which follows HEAD",
        ),
        "spatial-filter": (
            "workingcopies",
            "Look at the spatial filters that a repository has",
        ),
        "add-dataset": ("workingcopies", "Make tables that an editor added datasets"),
        "commit": ("commit", "Commit what was edited in the tables, or in a file"),
        "commit-files": ("meta", "Commit files beside the datasets of a Kart repository"),
        "status": ("status", "Show where HEAD is, what is edited and what stands in the way"),
        "log": ("log", "Show the commits that lead to a revision"),
        "show": ("diff", "Show a commit and what it changed"),
        "diff": ("diff", "Show what is edited, or what differs between two revisions"),
        "head": ("rows", "Print the first rows of a dataset"),
        "cat": ("rows", "Print the rows of a dataset"),
        "count": ("rows", "Print how many rows datasets have"),
        "describe": ("describe", "Tell what a dataset is; without one, git describe"),
        "grep": ("grep", "Print the rows that hold a value, at any revision"),
        "review": ("review", "Sum up what changed, for people who decide on it"),
        "open": ("serving", "Show the repository on a page in the browser"),
        "check": ("check", "Hold what changed against the policy of the repository"),
        "ci": ("ci", "Review pull requests in jobs of GitHub and GitLab"),
        "git-diff": ("runs_for_git", "Print changed rows for `git diff`, which runs this"),
        "create-patch": ("patches", "Write a commit as a patch"),
        "apply": ("patches", "Commit the changes of a patch"),
        "branch": ("refs", "List, create or delete branches"),
        "switch": ("switch", "Switch to another branch"),
        "remote": ("remotes", "List, add and change remotes"),
        "fetch": ("remotes", "Bring commits of a remote, and their data"),
        "pull": ("remotes", "Fetch, then merge row by row"),
        "push": ("remotes", "Send commits to a remote, data first"),
        "merge": ("merge", "Bring in the changes of another branch, row by row"),
        "conflicts": ("deciding", "Show what a merge could not decide"),
        "resolve": ("deciding", "Decide conflicts of a merge"),
        "revert": ("picks", "Commit the opposite of what a commit changed"),
        "cherry-pick": ("picks", "Commit again what a commit of another branch changed"),
        "rebase": ("rebase", "Make commits again upon another branch, row by row"),
        "restore": ("restore", "Drop edits, or bring back datasets, rows or meta items"),
        "clean": ("clean", "Remove what nothing tracks from the work tree"),
        "stash": ("stash", "Set edits aside, and bring them back"),
        "reset": ("reset", "Move the current branch to another commit"),
        "blame": ("blame", "Show who last changed each row or cell"),
        "tag": ("refs", "List, create or delete tags"),
        "data": ("data", "List the datasets; fetch, send and drop data files"),
        "raster": ("raster", "Tell what rasters are: size, bands, place and pixels"),
        "mv": ("datasets", "Give a dataset another path"),
        "rm": ("datasets", "Remove datasets"),
        "meta": ("meta", "Show or change titles, schemas and CRS definitions"),
        "reflog": ("through_git", "Show where HEAD and branches were, as git reflog does"),
        "git": ("through_git", "Run git on the repository, also on one of Kart's"),
        "config": ("through_git", "Get and set options, as git config does"),
        "sql": ("sql", "Run a query in SQL"),
        "shell": ("with_spark", "Open a Python shell with Spark and the tables at hand"),
        "spark-conf": ("with_spark", "Print the settings with which Spark sees the checkout"),
        "serve": ("serving", "Serve the repository as an Iceberg REST catalog"),
        "convert": ("datasets", "Store a dataset as Kart does, or as a Havasu table"),
        "upgrade": ("upkeep", "Bring datasets to the newest form, or a Kart V2 repository to V3"),
        "optimize": ("upkeep", "Fold small files into large ones, in a commit of its own"),
        "fsck": ("upkeep", "Check that everything stored is sound"),
        "validate": ("upkeep", "Check that data is what its columns say"),
        "repair": ("upkeep", "Mend broken datasets from their last sound versions"),
        "hook": ("runs_for_git", "Guard a repository that others push to"),
        "gc": ("upkeep", "Remove data files that nothing needs any more"),
        "version": ("version", "Tell the version"),
        "completion": ("completion", "Print a script that lets a shell complete commands"),
    }
)
"""Commands in the order of the help: the module in `cli.commands`, what it does."""
OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {"table-export": "export", "table-import": "import"}
)
"""Names that Kart also has for some of them."""
NEEDLESS: Mapping[str, str] = MappingProxyType(
    {
        "helper": "commands start quickly without a process in the background",
        "lfs+": "tables keep no file in Git LFS; those of raster and point-cloud tiles are Kart's",
    }
)
"""Commands that Kart has besides, and why there is nothing to do."""
PARTS_OF_NEEDLESS: Mapping[str, Sequence[str]] = MappingProxyType(
    {"lfs+": ("fetch", "gc", "ls-files", "pre-push")}
)
"""The commands that one of them is made of, where it is."""


OF_KART_ALONE = ("ext-run", "lfs")
"""Commands that are there where this program is called `kart`."""

_OF_TILES = ("point-cloud-import", "raster-import")
_WORKS = "`git {}` works in this repository"
GIT_VERBS: Mapping[str, str] = MappingProxyType(
    {
        "add": "`havasu-vc commit` takes what was edited in tables, `git add` is for your files",
        "am": "`havasu-vc apply` commits a patch of rows",
        "bisect": "`git bisect run SCRIPT` finds a commit by a script that looks at the data",
        "ext-run": "only Kart itself runs Python inside of Kart, and a program imports `havasu_vc`",
        "format-patch": "`havasu-vc create-patch` writes a commit as a patch",
        "lfs": "`havasu-vc data` lists, fetches and sends data files",
        "ls": "`havasu-vc data ls` lists the datasets",
        "ls-files": "`havasu-vc data ls` lists the datasets",
        "ls-tree": "`havasu-vc data ls REV` lists the datasets",
        "mergetool": "`havasu-vc conflicts` shows conflicts, `havasu-vc resolve` settles them",
        "prune": "`havasu-vc gc` removes what nothing needs",
        "stage": "`havasu-vc commit` takes what was edited in tables",
        "undo": "`havasu-vc revert HEAD` undoes a commit, `havasu-vc restore` drops edits",
        "whatchanged": "`havasu-vc log --stat` tells what each commit changed",
        **{
            name: _WORKS.format(name)
            for name in "archive bundle cat-file cherry for-each-ref ls-remote "
            "maintenance merge-base name-rev notes range-diff replace rev-list rev-parse "
            "shortlog show-ref sparse-checkout submodule symbolic-ref update-ref verify-commit "
            "verify-tag worktree".split()
        },
    }
)
"""The line to type instead of a command that git has and this program has not."""


class CommandTable(click.Group):
    """The commands by name; a command's module is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        cmd_name = OTHER_NAMES.get(cmd_name, cmd_name)
        if cmd_name in NEEDLESS:
            from havasu_vc.cli.options import needless_command

            return needless_command(cmd_name, NEEDLESS[cmd_name], PARTS_OF_NEEDLESS.get(cmd_name))
        if cmd_name in OF_KART_ALONE and is_called_kart():
            return cast(
                click.Command,
                getattr(import_module("havasu_vc.cli.kart.commands"), cmd_name.replace("-", "_")),
            )
        if cmd_name == "build-annotations":
            from havasu_vc.cli.commands.annotations import build_annotations

            return build_annotations
        if cmd_name == "install":
            from havasu_vc.cli.commands.completion import install

            return install
        if cmd_name not in COMMANDS:
            return None
        # numpy's linear algebra starts a thread for each core when it is loaded, and
        # no command does any.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # Arrow's own allocator keeps what was freed: some tenth more memory, and no faster here.
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        home, name = COMMANDS[cmd_name][0], cmd_name.replace("-", "_")
        if home not in ("completion", "version"):
            load_libraries()
        module = import_module(f"havasu_vc.cli.commands.{home}")
        # Of several in one module, each has its own name.
        alone = home.rstrip("_") == name
        return cast(click.Command, module.command if alone else getattr(module, name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments begin with; `help COMMAND` is `COMMAND --help`."""
        if args[0] == "help":
            if not args[1:]:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [*args[1:], "--help"]
        if not self._knows(ctx, args[0]):
            from havasu_vc.cli.aliases import written_out

            args = written_out(args, ctx.params["folder"], lambda name: self._knows(ctx, name))
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise click.UsageError(_unknown(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def _knows(self, ctx: click.Context, name: str) -> bool:
        """Whether a word is a command, of ours or git's, or an option; an alias is none of them."""
        return name.startswith("-") or name in GIT_VERBS or self.get_command(ctx, name) is not None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table, importing none."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run a command line and leave with its exit code."""
        sys.exit(run(self, sys.argv[1:] if args is None else list(args)))


def _unknown(name: str) -> str:
    import difflib

    if (instead := GIT_VERBS.get(name)) is not None:
        return f"there is no command {name!r}; {instead}"
    if name in _OF_TILES:
        return f"rasters and point clouds are kept by Kart alone: run its own `kart {name}`"
    near = difflib.get_close_matches(name, COMMANDS, n=2)
    perhaps = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"there is no command {name!r}{perhaps}"


def run(group: click.Group, arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; nothing is raised."""
    instruction = os.environ.get(COMPLETE_VARIABLE)
    verbose, context = False, None
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = "--json-errors" in before
    try:
        if instruction:
            from click.shell_completion import shell_complete

            return shell_complete(group, {}, PROGRAM, COMPLETE_VARIABLE, instruction)
        with group.make_context(
            "kart" if is_called_kart() else PROGRAM, list(arguments)
        ) as context:
            result = group.invoke(context)
            verbose = isinstance(context.obj, Invocation) and context.obj.verbose
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as leaving:
        return _flushed(leaving.exit_code)
    except click.exceptions.NoArgsIsHelpError as asking:
        click.echo(asking.format_message(), err=True)
        return asking.exit_code
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    except (Exception, KeyboardInterrupt) as error:
        verbose = verbose or bool({"-v", "--verbose"} & set(arguments))
        name = context and context.invoked_subcommand
        command = group.get_command(context, name) if context and name else None
        return _reported(
            error,
            verbose=verbose,
            as_json=as_json,
            command=command,
            in_karts_place=is_called_kart() or stands_in(context),
        )


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    return code


def _reported(
    error: BaseException,
    *,
    verbose: bool,
    as_json: bool,
    command: click.Command | None,
    in_karts_place: bool,
) -> int:
    try:
        # What was printed before stands before the error.
        sys.stdout.flush()
        return report(
            error,
            verbose=verbose,
            as_json=as_json,
            command=command,
            in_karts_place=in_karts_place,
        )
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE


def _discard_output() -> None:
    """Let Python flush its streams at the end, though nobody reads them."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _print_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        ours = f"{PROGRAM} {__version__}"
        if is_called_kart():
            from havasu_vc.cli.kart.version import kart_version

            ours = kart_version(ours)
        click.echo(ours)
        context.exit()


@click.group(cls=CommandTable, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-C",
    "--repo",
    "folder",
    metavar="PATH",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Work in the repository at PATH.  [default: the current folder]",
)
@click.option("-v", "--verbose", is_flag=True, help="Tell more.")
@click.option("-q", "--quiet", is_flag=True, help="Tell nothing but errors.")
@click.option("--no-progress", is_flag=True, help="Draw no progress bars.")
@click.option(
    "--progress",
    "progress_form",
    type=click.Choice(PROGRESS),
    default=PROGRESS[0],
    help="How to tell progress: bars on a terminal, lines of JSON on stderr, or not.",
)
@click.option(
    "--json-errors", is_flag=True, help="Tell errors, notes and results on stderr in lines of JSON."
)
@click.option("--no-pager", is_flag=True, help="Page nothing on a terminal.")
@click.option("--no-color", is_flag=True, help="Use no colours; NO_COLOR=1 does the same.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Tell the version and exit.",
)
@click.pass_context
def cli(
    context: click.Context,
    folder: Path,
    verbose: bool,
    quiet: bool,
    no_progress: bool,
    progress_form: str,
    json_errors: bool,
    no_pager: bool,
    no_color: bool,
) -> None:
    """Version control for tables that hold geometries and rasters.

    Tables live in a git repository; these commands change, compare and merge them by
    row and cell. The options below stand before the command, or after it in their
    long form; `-q` may stand there too.
    """
    if verbose:
        import logging

        logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    context.obj = Invocation(
        folder=folder,
        verbose=verbose,
        quiet=quiet,
        progress=not no_progress,
        progress_form=progress_form,
        json_errors=json_errors,
        pager=not no_pager,
        color=wants_color() and not no_color,
    )


def main() -> NoReturn:
    """Run the command line of this process."""
    prepare_process()
    ended: list[int] = []
    atexit.register(_leave, ended)  # the first is the last to be called
    try:
        cli.main()
    except SystemExit as leaving:
        if not isinstance(leaving.code, int):
            raise
        ended.append(leaving.code)
    finally:
        if "_duckdb" not in sys.modules:  # it tells of whatever is left of it
            gc.freeze()  # nothing is looked through for garbage when the process goes
    sys.exit(*ended)


def _leave(ended: list[int]) -> None:
    """End the process with its exit code, once all that was to be done at the end is done.

    Python would take every module apart now, and Arrow its functions, which nobody sees.
    """
    if not ended or not _TAKEN_APART.isdisjoint(sys.modules):
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return  # of which Python tells
    os._exit(ended[0])
