"""Keys for the rows of a source that has none: those that they had, or the next numbers.

A row that is as it was is known by the id of its feature. When a source comes in again,
the others wait until all have come. Then they are looked for among the rows of the last
import that did not come: one that is alike keeps its key, so that it shows as an edit.
The search is as Kart's, and gives the keys that Kart gives: it takes place only when the
rows that came and the rows that went are few, and the columns are nearly the same ones.

Memory holds hashes of the rows that wait, no more of them than the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from havasu_vc.datasets.kart.similar_rows import SimilarRows, related_hashes
from havasu_vc.formats.kart.columns import (
    GeneratedKeys,
    column_id,
    format_legend,
    legend_name,
    legend_of,
)
from havasu_vc.formats.kart.features import FeatureDecoder
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.datasets.kart.view import KartDataset

__all__ = ["EarlierImport", "KeyGiver"]

_AT_ONCE = 1 << 12


@dataclass(frozen=True, slots=True)
class EarlierImport:
    """Where rows that hardly changed are looked for."""

    find: Callable[[], KartDataset]
    """Return the dataset as the last import left it; called only when there is a need."""
    limit: int
    """How many rows may have come and gone at most, together."""


class KeyGiver:
    """Gives keys to rows, as they come and after the last one."""

    def __init__(
        self, keys: GeneratedKeys, schema: Schema, earlier: EarlierImport | None = None
    ) -> None:
        """Give keys to rows of a Kart dataset's schema."""
        self.keys = keys
        """What is remembered."""
        self._schema = schema
        self._earlier = earlier if earlier is not None and earlier.limit > 0 else None
        legend = legend_of(schema)
        self._decoder = FeatureDecoder(schema, {legend_name(format_legend(legend)): legend})
        self._rows = 0
        self._ids: list[bytes] = []
        self._hashes: list[Hashes] = []
        self._numbers: list[int] | None = None

    def take(self, ids: Sequence[bytes], features: Sequence[bytes]) -> list[int | None]:
        """Return the keys of rows, by the ids and bytes of their features; None if one waits."""
        self._rows += len(ids)
        if self._earlier is None or self._numbers is not None:
            return [*self.keys.assign(ids)]
        found = self.keys.recall(ids)
        waiting = [index for index, key in enumerate(found) if key is None]
        if waiting:
            self._ids += [ids[index] for index in waiting]
            if len(self._ids) > self._earlier.limit:
                self._hashes.clear()
                self._numbers = [self.keys.new(each) for each in self._ids]
            else:
                chosen = [features[index] for index in waiting]
                rows = self._decoder.decode([[0] * len(chosen)], chosen, str)
                self._hashes.append(related_hashes(rows, self._schema))
        return found

    def rest(self) -> tuple[list[int], list[bytes]]:
        """Return the keys and ids of the rows that waited, after the last one came."""
        if self._numbers is None:
            pairs = self._alike() if self._ids else {}
            for index, key in pairs.items():
                self.keys.change(key, self._ids[index])
            self._numbers = [
                pairs[index] if index in pairs else self.keys.new(identity)
                for index, identity in enumerate(self._ids)
            ]
        return self._numbers, self._ids

    def _alike(self) -> dict[int, int]:
        """Return the keys of rows that are alike to one that went, by their numbers."""
        if self._earlier is None:
            return {}
        before, limit = self._earlier.find(), self._earlier.limit
        if not _is_near(before.schema, self._schema):
            return {}
        # The rows that went are as many as those that came, and what the table shrank by.
        grown = self._rows - before.rows
        if abs(grown) > limit or len(self._ids) > (limit + grown) // 2:
            return {}
        found = SimilarRows(np.concatenate(self._hashes))
        form = before.form()
        decoder = form.decoder()
        name = before.key.fields[0].name
        gone = self.keys.unused()
        for start in range(0, len(gone), _AT_ONCE):
            files = before.files_of([(key,) for key in gone[start : start + _AT_ONCE]])
            if files.names:
                rows = files.rows(form, decoder)
                keys = rows.column(name).to_numpy().astype(np.int64)
                found.add(related_hashes(rows, before.schema), keys)
        return dict(found.pairs())


def _is_near(old: Schema, new: Schema) -> bool:
    """Whether the columns are the same, but for one that came and one that went at most."""
    was, becomes = ({column_id(f): f.id for f in schema.fields} for schema in (old, new))
    keys = [
        [column for column, number in ids.items() if number in schema.identifier_ids]
        for ids, schema in ((was, old), (becomes, new))
    ]
    came, went = becomes.keys() - was.keys(), was.keys() - becomes.keys()
    return keys[0] == keys[1] and len(came) <= 1 and len(went) <= 1
