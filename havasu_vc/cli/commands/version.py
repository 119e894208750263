"""`havasu-vc version`."""

from __future__ import annotations

import json
import sys

import click

from havasu_vc import __version__
from havasu_vc.cli.options import Command, format_option

__all__ = ["command"]

LIBRARIES = ("click", "pyarrow", "pygit2", "pyogrio", "pyproj", "pyspark", "shapely")


@click.command("version", cls=Command)
@click.option("--all", "everything", is_flag=True, help="Also Python and the libraries used.")
@format_option("text", "json")
def command(everything: bool, output_format: str) -> None:
    """Tell the version."""
    versions = {"havasu-vc": __version__}
    if everything:
        versions["python"] = sys.version.split()[0]
        versions |= {name: _installed(name) for name in LIBRARIES}
    if output_format == "json":
        click.echo(json.dumps(versions, indent=2))
    else:
        for name, version in versions.items():
            click.echo(f"{name} {version}")


def _installed(name: str) -> str:
    # Slow to load, and `version` alone must be quick.
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
