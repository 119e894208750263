"""What a partial clone left with its remote: asking for many objects at once.

git fetches promised objects one by one when it meets them. For very many that takes
hours, so they are asked for in one go, as git itself does where it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from havasu_vc.errors import NotFoundError
from havasu_vc.store.command import run_git

__all__ = ["fetch_promised", "spatial_filter"]


def fetch_promised(git_directory: Path, ids: Sequence[bytes]) -> None:
    """Fetch objects from the remote that promised them; raises if there is none."""
    promisors = run_git(
        ["config", "--null", "--name-only", "--get-regexp", r"^remote\..*\.promisor$", "true"],
        git_directory=git_directory,
        check=False,
    )
    if promisors.code:
        raise NotFoundError(
            f"git object {ids[0].hex()} is missing, and there is no remote that would have it",
            hints=("`git fsck` tells what else is missing",),
        )
    name = promisors.text.split("\0")[0]
    remote = name.removeprefix("remote.").removesuffix(".promisor")
    options = "--quiet --no-tags --no-write-fetch-head --recurse-submodules=no --filter=blob:none"
    run_git(
        ["-c", "fetch.negotiationAlgorithm=noop", "fetch", remote, *options.split(), "--stdin"],
        git_directory=git_directory,
        stdin=b"".join(identity.hex().encode() + b"\n" for identity in ids),
    )


def spatial_filter(git_directory: Path) -> bool:
    """Return whether Kart cloned only what lies in some area."""
    command = ["config", "--get-regexp", r"^kart\.spatialfilter\."]
    return not run_git(command, git_directory=git_directory, check=False).code
