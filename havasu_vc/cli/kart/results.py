"""Lines of results as Kart says them, where this program says something else."""

from __future__ import annotations

__all__ = ["HOW_TO_GO_ON", "OF_HIDDEN", "SAID"]

OF_HIDDEN = (
    "Warning: Some primary key values of newly-inserted features in the working copy conflict "
    "with other features outside the spatial filter - if committed, they would overwrite "
    "those features."
)
HOW_TO_GO_ON = (
    "  To continue, change the primary key values of those features, or specify "
    "--allow-spatial-filter-conflicts."
)
"""The beginning and the end of what Kart says of such rows."""

SAID: tuple[tuple[str, str, str], ...] = (
    ("checkout switch", r"Switched to (a new )?branch '.*'|HEAD is now at [0-9a-f]{7,} .*", ""),
    ("checkout", r"(Checked out|Nothing to do:) .*", ""),
    ("reset", r"(\S+ is|HEAD is) now at [0-9a-f]{7,} .*", ""),
    (
        "restore",
        r"Dropped the edits .*|Nothing (to restore: .*|is committed to .*|changed, .*)|"
        "In the working copy, .*",
        "",
    ),
    (
        "diff",
        r"Note: Warning: inserted rows have keys of rows outside .* committed\. (In dataset .*)",
        rf"{OF_HIDDEN}\n  \1\n{HOW_TO_GO_ON}",
    ),
    ("diff show", r"Note: .+ has no row .+", ""),
    ("import", "Note: .+ is new: there was no dataset of that name to replace", ""),
    ("merge pull", r"  \S.*: (?!.*conflict).+", ""),
    ("restore", r"  \S.*: .+", ""),
    ("merge", "The merge is dropped; HEAD is where it was", ""),
    ("branch", "Made branch '.*'", ""),
    ("branch", r"Deleted branch '(.*)' \(was (.*)\)", r"Deleted branch \1 (was \2)."),
    ("tag", "Made tag '.*'", ""),
    ("gc", "Removed [\\d,]+ files?, .*|Packed git's objects anew: .*", ""),
    ("clone", "Cloned into .*|Note: the repository that was cloned has no commit yet", ""),
    ("push", "Everything is at .* already", "Everything up-to-date"),
    ("push", "Would push to (.*)", r"To \1"),
    ("fsck", "Everything is sound", "✔︎ Everything looks good"),
    ("commit rm", r"\[detached HEAD ([0-9a-f]{7})\] (.*)", r"[None \1] \2"),
    ("conflicts", "No conflicts(; .*)?", ""),
    ("index", r"(\(Not performing the indexing due to --dry-run\.)\)", r"\1"),
    ("index", r"Indexed (\d+),(\d{3}) features (in .*)", r"Indexed \1\2 features \3"),
    ("apply", r"Note: (.+: (?:Trying to|Feature was modified) .*)", r"\1"),
    ("apply", r"In the working copy, not committed:|  \S.*: .+", ""),
    ("init", "Initialized bare repository in (.*)", r"Initialized empty Git repository in \1/"),
    ("init", "Initialized repository in (.*)", r"Initialized empty Git repository in \1/.kart/"),
)
"""Lines that commands tell of what they did, and what Kart says: nothing where that is empty."""
