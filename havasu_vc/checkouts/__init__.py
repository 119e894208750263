"""Checkouts: tables of a work tree or of any folder, which other programs read and edit.

They are made, brought along with HEAD, compared, committed and set aside. The tables
themselves, which know no repository, are in `workspace`.
"""

from typing import TYPE_CHECKING

from havasu_vc.public import loads

if TYPE_CHECKING:
    from havasu_vc.checkouts.catching_up import catch_up as catch_up
    from havasu_vc.checkouts.catching_up import committing as committing
    from havasu_vc.checkouts.catching_up import following as following
    from havasu_vc.checkouts.checking_out import parse_flavour as parse_flavour
    from havasu_vc.checkouts.clustered_versions import forget_clustered as forget_clustered
    from havasu_vc.checkouts.counterparts import TREE as TREE
    from havasu_vc.checkouts.counterparts import data_files as data_files
    from havasu_vc.checkouts.counterparts import forget_counterparts as forget_counterparts
    from havasu_vc.checkouts.counterparts import havasu_difference as havasu_difference
    from havasu_vc.checkouts.counterparts import havasu_edit as havasu_edit
    from havasu_vc.checkouts.counterparts import table_view as table_view
    from havasu_vc.checkouts.edited_tables import drafted as drafted
    from havasu_vc.checkouts.edits import shown_datasets as shown_datasets
    from havasu_vc.checkouts.edits_elsewhere import ServedBase as ServedBase
    from havasu_vc.checkouts.edits_elsewhere import check_out_to as check_out_to
    from havasu_vc.checkouts.edits_elsewhere import edit_of_new as edit_of_new
    from havasu_vc.checkouts.edits_elsewhere import edit_of_served as edit_of_served
    from havasu_vc.checkouts.glance import WorkspaceChanges as WorkspaceChanges
    from havasu_vc.checkouts.glance import is_untouched as is_untouched
    from havasu_vc.checkouts.glance import nothing_edited as nothing_edited
    from havasu_vc.checkouts.keeping_bases import forget_gone_work_trees as forget_gone_work_trees
    from havasu_vc.checkouts.living_copy import LivingCopy as LivingCopy
    from havasu_vc.checkouts.living_lookup import working_copy as working_copy
    from havasu_vc.checkouts.living_making import make_table_anew as make_table_anew
    from havasu_vc.checkouts.living_making import unnoticed as unnoticed
    from havasu_vc.checkouts.living_place import is_working_copy as is_working_copy
    from havasu_vc.checkouts.living_place import keeping_out as keeping_out
    from havasu_vc.checkouts.living_place import left_out as left_out
    from havasu_vc.checkouts.living_place import require_other_file as require_other_file
    from havasu_vc.checkouts.living_place import require_place as require_place
    from havasu_vc.checkouts.living_shown import paired_keys as paired_keys
    from havasu_vc.checkouts.moving_head import abort_merge as abort_merge
    from havasu_vc.checkouts.moving_head import commit_of as commit_of
    from havasu_vc.checkouts.moving_head import continue_merge as continue_merge
    from havasu_vc.checkouts.moving_head import merge as merge
    from havasu_vc.checkouts.moving_head import rebase as rebase
    from havasu_vc.checkouts.moving_head import reset as reset
    from havasu_vc.checkouts.moving_head import switch as switch
    from havasu_vc.checkouts.requests import CheckoutRequest as CheckoutRequest
    from havasu_vc.checkouts.requests import CheckoutToRequest as CheckoutToRequest
    from havasu_vc.checkouts.requests import CleanRequest as CleanRequest
    from havasu_vc.checkouts.requests import ResetRequest as ResetRequest
    from havasu_vc.checkouts.requests import SwitchRequest as SwitchRequest
    from havasu_vc.checkouts.requests import TableCommitRequest as TableCommitRequest
    from havasu_vc.checkouts.requests import WorkspaceCommitRequest as WorkspaceCommitRequest
    from havasu_vc.checkouts.table_places import require_no_link as require_no_link
    from havasu_vc.checkouts.workspace import Workspace as Workspace

__getattr__ = loads(
    __name__,
    {
        "catching_up": ["catch_up", "committing", "following"],
        "clustered_versions": ["forget_clustered"],
        "counterparts": [
            "TREE",
            "data_files",
            "forget_counterparts",
            "havasu_difference",
            "havasu_edit",
            "table_view",
        ],
        "edited_tables": ["drafted"],
        "edits": ["shown_datasets"],
        "edits_elsewhere": [
            "ServedBase",
            "check_out_to",
            "edit_of_new",
            "edit_of_served",
        ],
        "glance": ["WorkspaceChanges", "is_untouched", "nothing_edited"],
        "keeping_bases": ["forget_gone_work_trees"],
        "living_copy": ["LivingCopy"],
        "living_making": ["make_table_anew", "unnoticed"],
        "living_place": [
            "is_working_copy",
            "keeping_out",
            "left_out",
            "require_other_file",
            "require_place",
        ],
        "living_lookup": ["working_copy"],
        "living_shown": ["paired_keys"],
        "moving_head": [
            "abort_merge",
            "commit_of",
            "continue_merge",
            "merge",
            "rebase",
            "reset",
            "switch",
        ],
        "table_places": ["require_no_link"],
        "workspace": ["Workspace"],
        "requests": [
            "CheckoutRequest",
            "CheckoutToRequest",
            "CleanRequest",
            "ResetRequest",
            "SwitchRequest",
            "TableCommitRequest",
            "WorkspaceCommitRequest",
        ],
        "checking_out": ["parse_flavour"],
    },
)
