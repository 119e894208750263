"""Which changed rows are worth seeing: a few of each reason, kept while the stream goes by.

Reasons are ranked by the one who asks; a reason keeps its first rows, or those with the
highest scores. What is kept is bounded by the number of reasons, never by the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.model.changes import ChangeBatch
from havasu_vc.records import dataclass

__all__ = ["Kept", "Sampler"]

_Rows = npt.NDArray[np.int64]
_Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Kept:
    """One changed row."""

    change: ChangeBatch
    """A batch of this one row."""
    order: int
    """Which change of the stream it is."""
    score: float = 0.0
    """How telling it is, among those of its reason."""


class Sampler:
    """Keeps up to `room` rows for each reason."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept: dict[str, list[Kept]] = {}

    def offer(
        self,
        reason: str,
        batch: ChangeBatch,
        rows: _Rows,
        *,
        start: int,
        scores: _Scores | None = None,
    ) -> None:
        """Look at some rows of a batch, which begins with change number `start`."""
        kept = self._kept.setdefault(reason, [])
        if scores is None:
            chosen = rows[: max(self._room - len(kept), 0)]
            kept += self._taken(batch, chosen, start, np.zeros(len(chosen)))
            return
        least = kept[-1].score if len(kept) >= self._room else -np.inf
        better = scores > least
        rows, scores = rows[better], scores[better]
        best = np.argsort(-scores, kind="stable")[: self._room]
        if len(best):
            kept += self._taken(batch, rows[best], start, scores[best])
            kept.sort(key=lambda each: (-each.score, each.order))
            del kept[self._room :]

    @staticmethod
    def _taken(batch: ChangeBatch, rows: _Rows, start: int, scores: _Scores) -> Iterator[Kept]:
        if not len(rows):
            return
        # Taken, not sliced: a slice would keep the whole batch in memory.
        piece = batch.data.take(pa.array(rows))
        for index, (row, score) in enumerate(zip(rows.tolist(), scores.tolist(), strict=True)):
            yield Kept(ChangeBatch(piece.slice(index, 1)), start + row, score)

    def of(self, reason: str) -> list[Kept]:
        """Return what is kept for a reason, the most telling first."""
        return self._kept.get(reason, [])

    def chosen(self, reasons: Iterable[str], limit: int) -> list[tuple[str, Kept]]:
        """Return up to `limit` rows, each once, dealt out so that every reason is heard.

        Reasons come in order of their rank; each gives a row in turn.
        """
        ranked = [(reason, iter(self.of(reason))) for reason in reasons]
        seen: set[int] = set()
        found: list[tuple[int, str, Kept]] = []
        while ranked and len(found) < limit:
            left = []
            for rank, (reason, rest) in enumerate(ranked):
                kept = next((each for each in rest if each.order not in seen), None)
                if kept is None:
                    continue
                left.append((reason, rest))
                if len(found) < limit:
                    seen.add(kept.order)
                    found.append((rank, reason, kept))
            ranked = left
        order = {reason: rank for rank, reason in enumerate(dict.fromkeys(r for _, r, _ in found))}
        found.sort(key=lambda each: order[each[1]])
        return [(reason, kept) for _, reason, kept in found]
