"""An open repository: the small core that all use cases stand on.

Datasets at any revision, broken ones named; filters; what changed between revisions; and
the transaction, the only way by which anything becomes a commit.
"""

from typing import TYPE_CHECKING

from havasu_vc.public import loads

if TYPE_CHECKING:
    from havasu_vc.repo.edits import commit_edits as commit_edits
    from havasu_vc.repo.results import CheckoutResult as CheckoutResult
    from havasu_vc.repo.results import CommitResult as CommitResult
    from havasu_vc.repo.results import DatasetInfo as DatasetInfo
    from havasu_vc.repo.results import ExportResult as ExportResult
    from havasu_vc.repo.results import GcResult as GcResult
    from havasu_vc.repo.results import ImportResult as ImportResult
    from havasu_vc.repo.results import Problem as Problem
    from havasu_vc.repo.results import RepoStatus as RepoStatus
    from havasu_vc.repo.results import TakenColumn as TakenColumn
    from havasu_vc.repo.results import Understood as Understood
    from havasu_vc.repo.results import WaitingMerge as WaitingMerge
    from havasu_vc.repo.soundness import sound_datasets as sound_datasets

__all__ = [
    "CheckoutResult",
    "CommitResult",
    "DatasetInfo",
    "ExportResult",
    "GcResult",
    "ImportResult",
    "Problem",
    "RepoStatus",
    "TakenColumn",
    "Understood",
    "WaitingMerge",
    "commit_edits",
    "sound_datasets",
]

__getattr__ = loads(
    __name__,
    {
        "edits": ["commit_edits"],
        "results": [
            "CheckoutResult",
            "CommitResult",
            "DatasetInfo",
            "ExportResult",
            "GcResult",
            "ImportResult",
            "Problem",
            "RepoStatus",
            "TakenColumn",
            "Understood",
            "WaitingMerge",
        ],
        "soundness": ["sound_datasets"],
    },
)
