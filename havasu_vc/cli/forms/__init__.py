"""The JSON that commands print: the name of each form, what it holds, and who prints it.

A document is an object whose names are forms, as `{"havasu.switch/v1": {…}}`; each form is
described by the type of its value. What is no such object is named by a word, as the list of
`log`. A form may get further names; none goes or changes its meaning
before the number at its end does.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from havasu_vc.cli.forms import kart, results
from havasu_vc.review import Review
from havasu_vc.sharing import DataStatus

__all__ = ["FORMS", "PRINTED"]

FORMS: Mapping[str, Any] = MappingProxyType(
    {
        "blame": list[results.BlamedRow],
        "data-version": dict[str, int | str],
        "havasu.check/v1": results.Checked,
        "havasu.checkout/v1": results.CheckedOut,
        "havasu.cherry-pick/v1": results.PickedSeveral,
        "havasu.clone/v1": results.Cloned,
        "havasu.count/v1": dict[str, int],
        "havasu.create-workingcopy/v1": results.WrittenCopy,
        "havasu.data-drop/v1": results.Dropped,
        "havasu.data-fetch/v1": results.Moved,
        "havasu.data-place/v1": results.Place,
        "havasu.data-prune/v1": results.Pruned,
        "havasu.data-push/v1": results.Moved,
        "havasu.data-status/v2": DataStatus,
        "havasu.data-verify/v1": list[results.FoundProblem],
        "havasu.describe/v1": results.Described,
        "havasu.export/v1": results.WrittenCopy,
        "havasu.fetch/v1": results.Fetched,
        "havasu.fsck/v1": list[results.FoundProblem],
        "havasu.gc/v1": results.Removed,
        "havasu.head/v1": results.Head,
        "havasu.import/v1": results.Imported,
        "havasu.init/v1": results.Initialized,
        "havasu.layers/v1": list[str],
        "havasu.pull/v1": results.Pulled,
        "havasu.push/v1": results.Pushed,
        "havasu.raster-info/v1": Any,
        "havasu.rebase/v1": results.PickedSeveral,
        "havasu.remote/v1": list[results.Remote],
        "havasu.reset/v1": results.Head,
        "havasu.resolve/v1": results.Resolved,
        "havasu.restore/v1": results.Restored,
        "havasu.revert/v1": results.PickedSeveral,
        "havasu.review/v2": Review,
        "havasu.stash-apply/v1": results.StashEntry,
        "havasu.stash-drop/v1": results.StashEntry,
        "havasu.stash-pop/v1": results.StashEntry,
        "havasu.spatial-filter-index/v1": kart.FeatureIndexForm,
        "havasu.stash-push/v1": results.StashEntry,
        "havasu.stash/v1": list[results.StashEntry],
        "havasu.status/v1": results.State,
        "havasu.switch/v1": results.Switched,
        "havasu.tag/v1": dict[str, results.ListedTag],
        "havasu.upgrade/v1": results.Upgraded,
        "havasu.validate/v1": list[results.Issue],
        "kart.branch/v1": kart.BranchList,
        "kart.commit/v1": kart.Committed,
        "kart.conflicts/v1": dict[str, Any],
        "kart.data.ls/v1": list[str],
        "kart.data.ls/v2": list[results.ListedDataset],
        "kart.diff/v1+hexwkb": dict[str, kart.ChangedRows],
        "kart.merge/v1": kart.Merge,
        "kart.show/v1": kart.ShownCommit,
        "kart.status/v2": kart.Status,
        "kart.tables/v1": dict[str, str],
        "log": list[results.LoggedCommit],
        "meta": dict[str, dict[str, Any]],
        "rows": list[dict[str, Any]],
        "spatial-filter": kart.SpatialFilterForm,
        "version": dict[str, str],
    }
)
"""The type of the value of each form."""

PRINTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "add-dataset": ("havasu.import/v1",),
        "apply": ("kart.commit/v1",),
        "blame": ("blame",),
        "branch": ("kart.branch/v1",),
        "cat": ("rows",),
        "check": ("havasu.check/v1",),
        "checkout": ("havasu.checkout/v1",),
        "cherry-pick": ("havasu.cherry-pick/v1", "havasu.head/v1"),
        "clone": ("havasu.clone/v1",),
        "commit": ("kart.commit/v1",),
        "commit-files": ("kart.commit/v1",),
        "conflicts": ("kart.conflicts/v1",),
        "convert": ("kart.commit/v1",),
        "count": ("havasu.count/v1",),
        "create-workingcopy": ("havasu.create-workingcopy/v1",),
        "data drop": ("havasu.data-drop/v1",),
        "data fetch": ("havasu.data-fetch/v1",),
        "data ls": ("kart.data.ls/v1", "kart.data.ls/v2"),
        "data place": ("havasu.data-place/v1",),
        "data prune": ("havasu.data-prune/v1",),
        "data push": ("havasu.data-push/v1",),
        "data rm": ("kart.commit/v1",),
        "data status": ("havasu.data-status/v2",),
        "data verify": ("havasu.data-verify/v1",),
        "data version": ("data-version",),
        "describe": ("havasu.describe/v1",),
        "diff": ("kart.diff/v1+hexwkb",),
        "export": ("havasu.export/v1",),
        "fetch": ("havasu.fetch/v1",),
        "fsck": ("havasu.fsck/v1",),
        "gc": ("havasu.gc/v1",),
        "head": ("rows",),
        "import": ("havasu.import/v1", "havasu.layers/v1", "kart.tables/v1"),
        "init": ("havasu.init/v1",),
        "log": ("log",),
        "merge": ("kart.merge/v1", "havasu.head/v1"),
        "meta get": ("meta",),
        "meta set": ("kart.commit/v1",),
        "mv": ("kart.commit/v1",),
        "optimize": ("kart.commit/v1",),
        "pull": ("havasu.pull/v1",),
        "push": ("havasu.push/v1",),
        "raster info": ("havasu.raster-info/v1",),
        "rebase": ("havasu.rebase/v1", "havasu.head/v1"),
        "remote": ("havasu.remote/v1",),
        "repair": ("kart.commit/v1",),
        "reset": ("havasu.reset/v1",),
        "resolve": ("havasu.resolve/v1",),
        "restore": ("havasu.restore/v1",),
        "revert": ("havasu.revert/v1", "havasu.head/v1"),
        "review": ("havasu.review/v2",),
        "rm": ("kart.commit/v1",),
        "show": ("kart.diff/v1+hexwkb", "kart.show/v1"),
        "spatial-filter index": ("havasu.spatial-filter-index/v1",),
        "spatial-filter resolve": ("spatial-filter",),
        "sql": ("rows",),
        "stash apply": ("havasu.stash-apply/v1",),
        "stash drop": ("havasu.stash-drop/v1",),
        "stash list": ("havasu.stash/v1",),
        "stash pop": ("havasu.stash-pop/v1",),
        "stash push": ("havasu.stash-push/v1",),
        "stash show": ("kart.diff/v1+hexwkb",),
        "status": ("kart.status/v2", "havasu.status/v1"),
        "switch": ("havasu.switch/v1",),
        "tag": ("havasu.tag/v1",),
        "upgrade": ("havasu.upgrade/v1",),
        "validate": ("havasu.validate/v1",),
        "version": ("version",),
    }
)
"""The forms that each command prints with `-o json`: first the usual one."""
