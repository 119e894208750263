"""An open repository: the small core that all use cases stand on.

Datasets at any revision, broken ones named; filters; what changed between revisions; and
the transaction, the only way by which anything becomes a commit.
"""

from typing import TYPE_CHECKING

from havasu_vc.public import loads

if TYPE_CHECKING:
    from havasu_vc.repo.results import (
        CheckoutResult,
        CommitResult,
        DatasetInfo,
        ExportResult,
        GcResult,
        ImportResult,
        Problem,
        RepoStatus,
        WaitingMerge,
    )

__all__ = [
    "CheckoutResult",
    "CommitResult",
    "DatasetInfo",
    "ExportResult",
    "GcResult",
    "ImportResult",
    "Problem",
    "RepoStatus",
    "WaitingMerge",
]

__getattr__ = loads(__name__, {"results": __all__})
