"""The state of a repository in Kart's words."""

import pytest

from havasu_vc.model.commits import ChangeCounts
from havasu_vc.writers.protocol import ChangeSummary, DatasetSummary
from havasu_vc.writers.status import RepositoryStatus, Upstream, format_status, status_object

COMMIT = "0c64d8211c072a08d5fc6e6fe898cbb59fc83d16"
CHANGES = ChangeSummary(
    {
        "roads": DatasetSummary(ChangeCounts(updates=1), ChangeCounts(1, 0, 2)),
        "bridges": DatasetSummary(features=ChangeCounts(updates=3)),
    }
)


def test_json() -> None:
    status = RepositoryStatus(COMMIT, "main", Upstream("origin/main", 1, 2), CHANGES)

    assert status_object(status) == {
        "kart.status/v2": {
            "commit": COMMIT,
            "abbrevCommit": COMMIT[:7],
            "branch": "main",
            "upstream": {"branch": "origin/main", "ahead": 1, "behind": 2},
            "spatialFilter": None,
            "workingCopy": {
                "parts": {},
                "changes": {
                    "roads": {"meta": {"updates": 1}, "feature": {"inserts": 1, "deletes": 2}},
                    "bridges": {"feature": {"updates": 3}},
                },
                "nonCheckoutDatasets": [],
            },
        }
    }


def test_json_of_an_empty_repository() -> None:
    value = status_object(RepositoryStatus(None, "main"))["kart.status/v2"]

    assert value["commit"] is value["abbrevCommit"] is value["upstream"] is None
    assert value["workingCopy"] is None


def test_text() -> None:
    assert format_status(RepositoryStatus(COMMIT, "main", None, CHANGES)).splitlines() == [
        "On branch main",
        "",
        "Changes in working copy:",
        '  (use "havasu-vc commit" to commit)',
        '  (use "havasu-vc restore" to discard changes)',
        "",
        "  roads:",
        "    meta:",
        "      1 updates",
        "    feature:",
        "      1 inserts",
        "      2 deletes",
        "  bridges:",
        "    feature:",
        "      3 updates",
    ]


@pytest.mark.parametrize(
    ("upstream", "words"),
    [
        (Upstream("o/main"), "Your branch is up to date with 'o/main'."),
        (Upstream("o/main", 1), "is ahead of 'o/main' by 1 commit."),
        (Upstream("o/main", 0, 2), "is behind 'o/main' by 2 commits, and can be fast-forwarded."),
        (Upstream("o/main", 3, 2), "and have 3 and 2 different commits each, respectively."),
    ],
)
def test_how_the_branch_stands(upstream: Upstream, words: str) -> None:
    text = format_status(RepositoryStatus(COMMIT, "main", upstream, ChangeSummary()))

    assert words in text
    assert text.endswith("\n\nNothing to commit, working copy clean\n")


def test_a_detached_head_and_no_commit() -> None:
    assert format_status(RepositoryStatus(COMMIT, None)).startswith("HEAD detached at 0c64d82\n")
    assert format_status(RepositoryStatus(None, "main")).startswith("Empty repository.\n")
