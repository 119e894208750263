"""The JSON that commands print: the name of each form, what it holds, and who prints it.

A document is an object whose names are forms, as `{"havasu.switch/v1": {…}}`; each form is
described by the type of its value. A form may get further names; none goes or changes its meaning
before the number at its end does.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from havasu_vc.cli.forms import kart, results

__all__ = ["FORMS", "PRINTED"]

FORMS: Mapping[str, Any] = MappingProxyType(
    {
        "kart.branch/v1": kart.BranchList,
        "kart.commit/v1": kart.Committed,
        "kart.merge/v1": kart.Merge,
        "kart.status/v2": kart.Status,
        "havasu.checkout/v1": results.CheckedOut,
        "havasu.cherry-pick/v1": results.PickedSeveral,
        "havasu.clone/v1": results.Cloned,
        "havasu.fetch/v1": results.Fetched,
        "havasu.head/v1": results.Head,
        "havasu.import/v1": results.Imported,
        "havasu.init/v1": results.Initialized,
        "havasu.layers/v1": list[str],
        "havasu.pull/v1": results.Pulled,
        "havasu.push/v1": results.Pushed,
        "havasu.rebase/v1": results.PickedSeveral,
        "havasu.reset/v1": results.Head,
        "havasu.resolve/v1": results.Resolved,
        "havasu.restore/v1": results.Restored,
        "havasu.revert/v1": results.PickedSeveral,
        "havasu.stash-apply/v1": results.StashEntry,
        "havasu.stash-drop/v1": results.StashEntry,
        "havasu.stash-pop/v1": results.StashEntry,
        "havasu.stash-push/v1": results.StashEntry,
        "havasu.stash/v1": list[results.StashEntry],
        "havasu.status/v1": results.State,
        "havasu.switch/v1": results.Switched,
    }
)
"""The type of the value of each form."""

PRINTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "add-dataset": ("havasu.import/v1",),
        "apply": ("kart.commit/v1",),
        "branch": ("kart.branch/v1",),
        "checkout": ("havasu.checkout/v1",),
        "cherry-pick": ("havasu.cherry-pick/v1", "havasu.head/v1"),
        "clone": ("havasu.clone/v1",),
        "commit": ("kart.commit/v1",),
        "commit-files": ("kart.commit/v1",),
        "convert": ("kart.commit/v1",),
        "fetch": ("havasu.fetch/v1",),
        "import": ("havasu.import/v1", "havasu.layers/v1"),
        "init": ("havasu.init/v1",),
        "merge": ("kart.merge/v1", "havasu.head/v1"),
        "mv": ("kart.commit/v1",),
        "optimize": ("kart.commit/v1",),
        "pull": ("havasu.pull/v1",),
        "push": ("havasu.push/v1",),
        "rebase": ("havasu.rebase/v1", "havasu.head/v1"),
        "repair": ("kart.commit/v1",),
        "reset": ("havasu.reset/v1",),
        "resolve": ("havasu.resolve/v1",),
        "restore": ("havasu.restore/v1",),
        "revert": ("havasu.revert/v1", "havasu.head/v1"),
        "rm": ("kart.commit/v1",),
        "stash apply": ("havasu.stash-apply/v1",),
        "stash drop": ("havasu.stash-drop/v1",),
        "stash list": ("havasu.stash/v1",),
        "stash pop": ("havasu.stash-pop/v1",),
        "stash push": ("havasu.stash-push/v1",),
        "status": ("kart.status/v2", "havasu.status/v1"),
        "switch": ("havasu.switch/v1",),
    }
)
"""The forms that each command prints with `-o json`: first the usual one."""
