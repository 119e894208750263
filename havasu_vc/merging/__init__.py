"""Merging: a commit into HEAD, and everything that waits for conflicts to be resolved.

Merge, cherry-pick, revert, what git left half-way, and moving HEAD back. How the rows of one
dataset are merged is `history.merge_datasets`; here are trees, commits and people's answers.
"""

from typing import TYPE_CHECKING

from havasu_vc.public import loads

if TYPE_CHECKING:
    from havasu_vc.merging.answers import Resolution as Resolution
    from havasu_vc.merging.kart_merges import conclude_kart_merge as conclude_kart_merge
    from havasu_vc.merging.kart_stops import KartMerge as KartMerge
    from havasu_vc.merging.kart_stops import drop_kart_merge as drop_kart_merge
    from havasu_vc.merging.kart_stops import read_kart_merge as read_kart_merge
    from havasu_vc.merging.kart_stops import tree_of_kart_merge as tree_of_kart_merge
    from havasu_vc.merging.merge_commits import MergeResult as MergeResult
    from havasu_vc.merging.merge_commits import merge as merge
    from havasu_vc.merging.picking import cherry_pick as cherry_pick
    from havasu_vc.merging.picking import continue_merge as continue_merge
    from havasu_vc.merging.picking import pick_several as pick_several
    from havasu_vc.merging.picking import rebase as rebase
    from havasu_vc.merging.picking import revert as revert
    from havasu_vc.merging.picking import skip_commit as skip_commit
    from havasu_vc.merging.requests import MergeRequest as MergeRequest
    from havasu_vc.merging.requests import PickRequest as PickRequest
    from havasu_vc.merging.requests import RebaseRequest as RebaseRequest
    from havasu_vc.merging.requests import SequenceRequest as SequenceRequest
    from havasu_vc.merging.resolving import conflicts as conflicts
    from havasu_vc.merging.resolving import labels as labels
    from havasu_vc.merging.resolving import resolve as resolve
    from havasu_vc.merging.state import read_cut_off as read_cut_off
    from havasu_vc.merging.state import require_calm as require_calm
    from havasu_vc.merging.state import reset as reset
    from havasu_vc.merging.takeover import abort_merge as abort_merge
    from havasu_vc.merging.trees import MergeRules as MergeRules
    from havasu_vc.merging.trees import RootTree as RootTree
    from havasu_vc.merging.trees import base_tree as base_tree
    from havasu_vc.merging.trees import merge_trees as merge_trees
    from havasu_vc.merging.trees import root_tree as root_tree
    from havasu_vc.merging.views import conflict_counts as conflict_counts
    from havasu_vc.merging.views import foreseen as foreseen
    from havasu_vc.merging.views import git_merges as git_merges
    from havasu_vc.merging.views import merge_context as merge_context
    from havasu_vc.merging.views import view_conflicts as view_conflicts
    from havasu_vc.merging.views import waiting_merge as waiting_merge
    from havasu_vc.merging.waiting import MERGED_REF as MERGED_REF
    from havasu_vc.merging.waiting import merge_waits as merge_waits
    from havasu_vc.merging.waiting import merged_tree as merged_tree
    from havasu_vc.merging.waiting import require_no_merge_of_kart as require_no_merge_of_kart

__getattr__ = loads(
    __name__,
    {
        "answers": ["Resolution"],
        "kart_merges": ["conclude_kart_merge"],
        "kart_stops": ["KartMerge", "drop_kart_merge", "read_kart_merge", "tree_of_kart_merge"],
        "merge_commits": ["MergeResult", "merge"],
        "picking": [
            "cherry_pick",
            "continue_merge",
            "pick_several",
            "rebase",
            "revert",
            "skip_commit",
        ],
        "resolving": ["conflicts", "labels", "resolve"],
        "takeover": ["abort_merge"],
        "state": ["read_cut_off", "require_calm", "reset"],
        "trees": ["MergeRules", "RootTree", "base_tree", "merge_trees", "root_tree"],
        "views": [
            "conflict_counts",
            "foreseen",
            "git_merges",
            "merge_context",
            "view_conflicts",
            "waiting_merge",
        ],
        "waiting": ["MERGED_REF", "merge_waits", "merged_tree", "require_no_merge_of_kart"],
        "requests": ["MergeRequest", "PickRequest", "RebaseRequest", "SequenceRequest"],
    },
)
