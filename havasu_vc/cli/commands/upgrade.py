"""`havasu-vc upgrade`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.counts import counted
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Upgraded

__all__ = ["command"]


@click.command("upgrade", cls=Command)
@click.argument(
    "paths", metavar="[[SOURCE] DESTINATION]", type=click.Path(path_type=Path), nargs=-1
)
@click.option("--in-place", is_flag=True, help="Move the branches and tags of the old repository.")
@json_option
@click.pass_obj
def command(invocation: Invocation, paths: tuple[Path, ...], in_place: bool) -> None:
    """Bring the datasets of HEAD to the newest form, in one commit.

    Datasets of format 1 become ones of format 2; no data file is written again. Upgrade the
    main branch, and merge others before that or upgrade them too.

    With DESTINATION, make a Kart V3 repository there of one in Kart's V2: all commits of all
    branches and tags are made again, with their authors and dates. The old repository, which
    is at SOURCE or here, stays as it is. With --in-place it is the one that becomes V3: its
    branches and tags move to the new commits. Whoever has cloned it clones it again.
    """
    if in_place and len({path.resolve() for path in paths}) > 1:
        raise click.UsageError("--in-place takes one repository")
    if len(paths) > 2:
        raise click.UsageError("two places at most: where it is, and where the new one is to be")
    *source, destination = paths or (None,)
    if in_place:
        source, destination = [*paths[:1]], None
    if source:
        invocation = replace(invocation, folder=invocation.folder / str(source[0]))
        destination = None if destination is None else Path.cwd() / destination
    repo = invocation.open_repo()
    if in_place:
        refs = repo.upgrade_in_place()
        moved: Upgraded = {
            "datasets": list(repo.datasets()),
            "commit": None,
            "path": str(repo.path),
        }
        invocation.result("havasu.upgrade/v1", moved)
        invocation.say(f"Upgraded {counted(refs, 'ref')}")
        _tell_end(invocation)
        return
    if destination is None:
        result = repo.upgrade_datasets()
        names = list(result.changes)
        upgraded: Upgraded = {"datasets": names, "commit": result.commit, "path": None}
        invocation.result("havasu.upgrade/v1", upgraded)
        invocation.say(f"Upgraded {', '.join(names)} to dataset format 2")
        return
    new = repo.upgrade(invocation.folder / destination)
    made: Upgraded = {"datasets": list(new.datasets()), "commit": None, "path": str(new.path)}
    invocation.result("havasu.upgrade/v1", made)
    invocation.say(f"Upgraded {repo.path} to {new.path}")
    _tell_end(invocation)


def _tell_end(invocation: Invocation) -> None:
    if is_called_kart():
        invocation.say("Upgrade complete")
