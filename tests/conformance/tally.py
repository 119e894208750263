"""How much was compared with each program, by direction."""

from collections import Counter, defaultdict

__all__ = ["Tally"]


class Tally:
    """Counts of a test, by program and direction."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)

    def case(self, program: str, direction: str, rows: int) -> None:
        """Count a table that agreed, with its rows."""
        self.counts[program, direction].update(cases=1, rows=rows)

    def theirs(self, program: str, direction: str) -> None:
        """Count a difference that is the program's, and is named where it is made."""
        self.counts[program, direction].update(theirs=1)
