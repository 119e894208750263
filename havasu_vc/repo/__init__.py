"""The one object a library user holds, and the operations behind it.

What operations return is loaded when it is first asked for: most runs need little of it.
"""

from typing import TYPE_CHECKING, Any

from havasu_vc.repo.repository import Repo
from havasu_vc.repo.settings import Settings

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
    "Repo",
    "RepoStatus",
    "Settings",
    "WaitingMerge",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from havasu_vc.repo import results

        return getattr(results, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
