"""Upkeep: a repository stays small, fast and right.

Optimize, collect garbage, check, repair, prune what remotes hold, and bring older forms up
to date.
"""

from typing import TYPE_CHECKING

from havasu_vc.public import loads

if TYPE_CHECKING:
    from havasu_vc.upkeep.annotations import annotate as annotate
    from havasu_vc.upkeep.feature_envelopes import Indexed as Indexed
    from havasu_vc.upkeep.feature_envelopes import index_features as index_features
    from havasu_vc.upkeep.garbage import waits_for_objects as waits_for_objects
    from havasu_vc.upkeep.maintenance import fsck as fsck
    from havasu_vc.upkeep.maintenance import fsck_working_copy as fsck_working_copy
    from havasu_vc.upkeep.maintenance import gc as gc
    from havasu_vc.upkeep.maintenance import optimize as optimize
    from havasu_vc.upkeep.pruning import prune_remote as prune_remote
    from havasu_vc.upkeep.repairing import last_version as last_version
    from havasu_vc.upkeep.repairing import repair as repair
    from havasu_vc.upkeep.requests import IndexRequest as IndexRequest
    from havasu_vc.upkeep.requests import OptimizeRequest as OptimizeRequest
    from havasu_vc.upkeep.requests import PruneRequest as PruneRequest
    from havasu_vc.upkeep.requests import RepairRequest as RepairRequest
    from havasu_vc.upkeep.upgrading import upgrade as upgrade
    from havasu_vc.upkeep.upgrading import upgrade_datasets as upgrade_datasets
    from havasu_vc.upkeep.upgrading import upgrade_in_place as upgrade_in_place
    from havasu_vc.upkeep.validation import Issue as Issue
    from havasu_vc.upkeep.validation import Level as Level
    from havasu_vc.upkeep.validation import Validation as Validation

__getattr__ = loads(
    __name__,
    {
        "annotations": ["annotate"],
        "feature_envelopes": ["Indexed", "index_features"],
        "garbage": ["waits_for_objects"],
        "maintenance": ["fsck", "fsck_working_copy", "gc", "optimize"],
        "pruning": ["prune_remote"],
        "repairing": ["last_version", "repair"],
        "upgrading": ["upgrade", "upgrade_datasets", "upgrade_in_place"],
        "validation": ["Issue", "Level", "Validation"],
        "requests": ["IndexRequest", "OptimizeRequest", "PruneRequest", "RepairRequest"],
    },
)
