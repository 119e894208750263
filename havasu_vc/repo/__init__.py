"""The one object a library user holds, and the operations behind it."""

from havasu_vc.repo.repository import Repo
from havasu_vc.repo.results import (
    CommitResult,
    DatasetInfo,
    ExportResult,
    GcResult,
    ImportResult,
    Problem,
    RepoStatus,
    WaitingMerge,
)
from havasu_vc.repo.settings import Settings

__all__ = [
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
