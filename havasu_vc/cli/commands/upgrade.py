"""`havasu-vc upgrade`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Upgraded

__all__ = ["command"]


@click.command("upgrade", cls=Command)
@click.argument("destination", type=click.Path(path_type=Path), required=False)
@json_option
@click.pass_obj
def command(invocation: Invocation, destination: Path | None) -> None:
    """Bring the datasets of HEAD to the newest form, in one commit.

    Datasets of format 1 become ones of format 2; no data file is written again. Upgrade the
    main branch, and merge others before that or upgrade them too.

    With DESTINATION, make a Kart V3 repository there of one in Kart's V2: all commits of all
    branches and tags are made again, with their authors and dates. The old repository stays
    as it is.
    """
    repo = invocation.open_repo()
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
