"""The colours of a review's maps, of Okabe and Ito: people of any sight tell them apart."""

__all__ = ["COLOURS", "SIDES"]

COLOURS = {"deleted": "#d55e00", "inserted": "#009e73", "before": "#cc79a7", "after": "#0072b2"}
"""Of what became of a row."""
SIDES = {"base": "#cc79a7", "ours": "#0072b2", "theirs": "#d55e00"}
"""Of the versions of a row in conflict."""
