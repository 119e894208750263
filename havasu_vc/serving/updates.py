"""Changes that Iceberg's REST clients ask of a table: requirements and updates, as values.

A commit is a list of requirements, which say what the client believes of the table, and a
list of updates to its metadata. Both are applied to the document that the client was given,
and neither reads or writes anything. What a git branch cannot take, or what would be lost
with it, is refused by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any

from havasu_vc.errors import ConcurrentChangeError, InvalidArgumentError
from havasu_vc.formats.iceberg.values import MAIN
from havasu_vc.records import dataclass

__all__ = ["TableChange", "applied", "new_document", "parse_change", "require"]

Document = Mapping[str, Any]
"""A table's metadata as JSON has it."""

_NUMBERS = {
    "assert-last-assigned-field-id": ("last-assigned-field-id", "last-column-id"),
    "assert-current-schema-id": ("current-schema-id", "current-schema-id"),
    "assert-last-assigned-partition-id": ("last-assigned-partition-id", "last-partition-id"),
    "assert-default-spec-id": ("default-spec-id", "default-spec-id"),
    "assert-default-sort-order-id": ("default-sort-order-id", "default-sort-order-id"),
}
"""Requirements that name a number: its name there, and in the document."""
_CALLED = {
    "last-column-id": "last assigned field id",
    "current-schema-id": "current schema",
    "last-partition-id": "last assigned partition id",
    "default-spec-id": "default partition spec",
    "default-sort-order-id": "default sort order",
}
"""Names of Iceberg's own catalogs for these numbers, by whose words clients know why."""
_LARGEST = 1 << 63
_NOTED = frozenset(
    (
        "set-statistics",
        "remove-statistics",
        "set-partition-statistics",
        "remove-partition-statistics",
        "remove-partition-specs",
        "remove-schemas",
    )
)
"""Updates of what is worked out anew whenever a table is served."""
_OF_SNAPSHOTS = _NOTED | {"add-snapshot", "set-snapshot-ref"}
_REFUSED = {
    "remove-snapshots": "snapshots are git's commits, which are not removed through the catalog",
    "add-encryption-key": "encrypted tables are not supported",
    "remove-encryption-key": "encrypted tables are not supported",
}


@dataclass(frozen=True, slots=True)
class TableChange:
    """The changes that a request asks of one table."""

    updates: tuple[Mapping[str, Any], ...] = ()
    """The updates, in order."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """The client's belief of numbers in the document, by their names there."""
    uuid: str | None = None
    """The id that the table is to have."""
    creates: bool = False
    """Whether there is to be no such table yet."""
    asserts_base: bool = False
    """Whether the client says what its rows are made upon."""
    base: int | None = None
    """The snapshot that it says; None for a table without rows."""

    @property
    def snapshots(self) -> tuple[Mapping[str, Any], ...]:
        """The snapshots that come, in order."""
        return tuple(each["snapshot"] for each in self._all("add-snapshot"))

    @property
    def snapshot(self) -> Mapping[str, Any] | None:
        """The snapshot that the table is to show; None where its rows stay."""
        return self.snapshots[-1] if self._all("set-snapshot-ref") else None

    @property
    def replaces(self) -> bool:
        """Whether the table is to begin anew, as CREATE OR REPLACE has it."""
        return bool(self._all("remove-snapshot-ref"))

    @property
    def alters_columns(self) -> bool:
        """Whether the table is to have other columns."""
        return bool(self._all("add-schema"))

    @property
    def identity(self) -> str:
        """The uuid that a table is given; empty where none is."""
        return next((str(update["uuid"]) for update in self._all("assign-uuid")), "")

    @property
    def moves_files_only(self) -> bool:
        """Whether the same rows are in other files now, and nothing else changes."""
        come = [(each.get("summary") or {}).get("operation") for each in self.snapshots]
        others = {update["action"] for update in self.updates} - _OF_SNAPSHOTS
        return bool(come) and set(come) == {"replace"} and not others

    @property
    def summary(self) -> Mapping[str, str]:
        """The writer's words on the snapshot that the table is to show."""
        return (self.snapshot or {}).get("summary") or {}

    def _all(self, action: str) -> list[Mapping[str, Any]]:
        return [update for update in self.updates if update["action"] == action]


def parse_change(requirements: Any, updates: Any, where: str) -> TableChange:
    """Return what lists of requirements and updates say; `where` names the table in errors."""
    found: dict[str, Any] = {"numbers": {}}
    for each in _objects(requirements, "requirements", where):
        _take_requirement(found, each, where)
    change = TableChange(tuple(_objects(updates, "updates", where)), **found)
    for update in change.updates:
        action = _get(update, "action", str, where)
        if action in _REFUSED:
            raise InvalidArgumentError(f"{where}: {_REFUSED[action]}")
        if action in _CHECKED:
            name, kind = _CHECKED[action]
            _get(update, name, kind, where)
        elif action not in _NOTED:
            raise InvalidArgumentError(f"{where}: the update {action[:60]!r} is not known")
    _check_snapshots(change, where)
    return change


def _take_requirement(found: dict[str, Any], each: Mapping[str, Any], where: str) -> None:
    kind = _get(each, "type", str, where)
    if kind == "assert-create":
        found["creates"] = True
    elif kind == "assert-table-uuid":
        found["uuid"] = _get(each, "uuid", str, where)
    elif kind == "assert-ref-snapshot-id":
        if _get(each, "ref", str, where) != MAIN:
            raise _other_ref(each["ref"], where)
        found["asserts_base"] = True
        if each.get("snapshot-id") is not None:
            found["base"] = _get(each, "snapshot-id", int, where)
    elif kind in _NUMBERS:
        theirs, ours = _NUMBERS[kind]
        found["numbers"][ours] = _get(each, theirs, int, where)
    else:
        raise InvalidArgumentError(f"{where}: the requirement {kind[:60]!r} is not known")


def _check_snapshots(change: TableChange, where: str) -> None:
    """Raise unless the last snapshot that comes is what the branch is to show, and no other ref."""
    come: set[int] = set()
    last = None
    for update in change.updates:
        action = update["action"]
        if action == "add-snapshot":
            last = _get(update["snapshot"], "snapshot-id", int, where)
            if not 0 <= last < _LARGEST:
                raise InvalidArgumentError(f"{where}: {last} is no id of a snapshot")
            come.add(last)
            summary = update["snapshot"].get("summary")
            if summary is not None:
                _require_texts(_get(update["snapshot"], "summary", dict, where), where)
        elif action in ("set-snapshot-ref", "remove-snapshot-ref"):
            if update["ref-name"] != MAIN:
                raise _other_ref(update["ref-name"], where)
            if action == "set-snapshot-ref":
                shown = _get(update, "snapshot-id", int, where)
                if shown not in come:
                    raise InvalidArgumentError(
                        f"{where}: a branch is not set to another snapshot through the catalog",
                        hints=(
                            "`havasu-vc restore --source COMMIT` brings rows of a commit back, "
                            "`havasu-vc revert` undoes one",
                        ),
                    )
    shown = [u["snapshot-id"] for u in change.updates if u["action"] == "set-snapshot-ref"]
    if come and (not shown or shown[-1] != last):
        raise InvalidArgumentError(
            f"{where}: snapshots that no branch shows are not kept",
            hints=("write to a branch of git, which is a warehouse of this catalog",),
        )


def _other_ref(name: object, where: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{where}: {str(name)[:60]!r} would be a branch or tag inside of the table; "
        "branches and tags are git's",
        hints=("make it with `havasu-vc branch` or `tag`; it is a warehouse of this catalog then",),
    )


def require(document: Document, change: TableChange, where: str) -> None:
    """Raise `ConcurrentChangeError` unless a document is as the client believes, its rows apart."""
    if change.uuid is not None and change.uuid != document["table-uuid"]:
        raise ConcurrentChangeError(
            f"Requirement failed: UUID does not match: {where} is another table now"
        )
    for name, number in change.numbers.items():
        if document[name] != number:
            raise ConcurrentChangeError(
                f"Requirement failed: {_CALLED[name]} changed: {where} has {document[name]}, "
                f"not {number}"
            )


def new_document(location: str) -> dict[str, Any]:
    """Return the document of a table that has no columns yet."""
    return {
        "format-version": 2,
        "table-uuid": "",
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": int(time.time() * 1000),
        "last-column-id": 0,
        "schemas": [],
        "current-schema-id": -1,
        "partition-specs": [],
        "default-spec-id": -1,
        "last-partition-id": 999,
        "sort-orders": [],
        "default-sort-order-id": -1,
        "properties": {},
        "snapshots": [],
        "refs": {},
        "snapshot-log": [],
        "metadata-log": [],
    }


def applied(document: Document, change: TableChange, where: str) -> dict[str, Any]:
    """Return a document with updates applied to it."""
    made = {
        name: list(value) if isinstance(value, list) else value for name, value in document.items()
    }
    made["properties"] = dict(document.get("properties") or {})
    made["refs"] = dict(document.get("refs") or {})
    state = _State(made, where)
    for update in change.updates:
        apply = _APPLY.get(update["action"])
        if apply is not None:
            apply(state, update)
    return made


class _State:
    """A document on its way, and what was added to it last."""

    def __init__(self, made: dict[str, Any], where: str) -> None:
        self.made = made
        self.where = where
        self._last: dict[str, int] = {}
        self._called: dict[tuple[str, int], int] = {}

    def add(self, kind: str, key: str, item: Mapping[str, Any], first: int) -> None:
        """Add a schema, spec or order under the number of its like, or under the next one."""
        items = self.made[kind]
        same = [each[key] for each in items if _rest(each, key) == _rest(item, key)]
        number = same[0] if same else max([*(each[key] for each in items), first - 1]) + 1
        if not same:
            items.append({**item, key: number})
        self._last[kind] = number
        if type(item.get(key)) is int:
            # DuckDB counts on from the current one, and calls by that what it adds.
            self._called[kind, item[key]] = number

    def choose(self, kind: str, key: str, current: str, number: int) -> None:
        """Make an item the current one; -1 is the one that was added last."""
        number = self._last.get(kind, -1) if number == -1 else number
        number = self._called.get((kind, number), number)
        if all(item[key] != number for item in self.made[kind]):
            raise InvalidArgumentError(f"{self.where}: it has no {key} {number}")
        self.made[current] = number


def _rest(item: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != key}


def _assign_uuid(state: _State, update: Mapping[str, Any]) -> None:
    if state.made["table-uuid"] not in ("", update["uuid"]):
        raise InvalidArgumentError(f"{state.where}: a table keeps its uuid")
    state.made["table-uuid"] = update["uuid"]


def _upgrade(state: _State, update: Mapping[str, Any]) -> None:
    wanted, there = update["format-version"], state.made["format-version"]
    if wanted > there:
        raise InvalidArgumentError(
            f"{state.where}: tables are of Iceberg's format {there}, and are not upgraded "
            f"to {wanted}"
        )


def _add_schema(state: _State, update: Mapping[str, Any]) -> None:
    schema = update["schema"]
    state.add("schemas", "schema-id", schema, 0)
    highest = max(_ids(schema), default=0)
    state.made["last-column-id"] = max(state.made["last-column-id"], highest)


def _ids(type_: Any) -> Iterable[int]:
    """Yield the ids of a type's fields, at any depth."""
    waiting = [type_]
    while waiting:
        found = waiting.pop()
        if isinstance(found, list):
            waiting += found
        elif isinstance(found, dict):
            for name, value in found.items():
                if name in ("id", "element-id", "key-id", "value-id") and type(value) is int:
                    yield value
                elif name in ("fields", "type", "element", "key", "value"):
                    waiting.append(value)


def _add_spec(state: _State, update: Mapping[str, Any]) -> None:
    made = state.made
    number, fields = made["last-partition-id"], []
    for part in _objects(update["spec"].get("fields"), "fields", state.where):
        given = part.get("field-id")
        if type(given) is not int:
            given = number + 1
        number = max(number, given)
        fields.append({**part, "field-id": given})
    made["last-partition-id"] = number
    state.add("partition-specs", "spec-id", {"fields": fields}, 0)


def _add_order(state: _State, update: Mapping[str, Any]) -> None:
    fields = _objects(update["sort-order"].get("fields"), "fields", state.where)
    state.add("sort-orders", "order-id", {"fields": fields}, 1 if fields else 0)


def _set_location(state: _State, update: Mapping[str, Any]) -> None:
    if update["location"].rstrip("/") != state.made["location"].rstrip("/"):
        raise InvalidArgumentError(f"{state.where}: a table's location is the catalog's to choose")


def _set_properties(state: _State, update: Mapping[str, Any]) -> None:
    _require_texts(update["updates"], state.where)
    state.made["properties"].update(update["updates"])


def _remove_properties(state: _State, update: Mapping[str, Any]) -> None:
    for name in update["removals"]:
        if isinstance(name, str):
            state.made["properties"].pop(name, None)


def _add_snapshot(state: _State, update: Mapping[str, Any]) -> None:
    snapshot, made = update["snapshot"], state.made
    number = snapshot.get("sequence-number", 0)
    if type(number) is not int:
        raise InvalidArgumentError(f"{state.where}: a snapshot's sequence number is no number")
    known = [each for each in made["snapshots"] if each["snapshot-id"] != snapshot["snapshot-id"]]
    made["snapshots"] = [*known, snapshot]
    made["last-sequence-number"] = max(made["last-sequence-number"], number)


def _set_ref(state: _State, update: Mapping[str, Any]) -> None:
    made, number = state.made, update["snapshot-id"]
    made["refs"][MAIN] = {"snapshot-id": number, "type": "branch"}
    made["current-snapshot-id"] = number


def _remove_ref(state: _State, _: Mapping[str, Any]) -> None:
    state.made["refs"].pop(MAIN, None)
    state.made["current-snapshot-id"] = -1


_APPLY: Mapping[str, Callable[[_State, Mapping[str, Any]], None]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade,
    "add-schema": _add_schema,
    "set-current-schema": lambda state, update: state.choose(
        "schemas", "schema-id", "current-schema-id", update["schema-id"]
    ),
    "add-spec": _add_spec,
    "set-default-spec": lambda state, update: state.choose(
        "partition-specs", "spec-id", "default-spec-id", update["spec-id"]
    ),
    "add-sort-order": _add_order,
    "set-default-sort-order": lambda state, update: state.choose(
        "sort-orders", "order-id", "default-sort-order-id", update["sort-order-id"]
    ),
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_ref,
    "remove-snapshot-ref": _remove_ref,
}
_CHECKED: Mapping[str, tuple[str, type]] = {
    "assign-uuid": ("uuid", str),
    "upgrade-format-version": ("format-version", int),
    "add-schema": ("schema", dict),
    "set-current-schema": ("schema-id", int),
    "add-spec": ("spec", dict),
    "set-default-spec": ("spec-id", int),
    "add-sort-order": ("sort-order", dict),
    "set-default-sort-order": ("sort-order-id", int),
    "set-location": ("location", str),
    "set-properties": ("updates", dict),
    "remove-properties": ("removals", list),
    "add-snapshot": ("snapshot", dict),
    "set-snapshot-ref": ("ref-name", str),
    "remove-snapshot-ref": ("ref-name", str),
}
"""Fields that an update must have, and of which type."""


def _require_texts(found: Mapping[str, Any], where: str) -> None:
    for name, value in found.items():
        if not isinstance(value, str):
            raise InvalidArgumentError(f"{where}: {name[:60]!r} is not a text")


def _objects(value: Any, name: str, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise InvalidArgumentError(f"{where}: {name} is to be a list of objects")
    return value


def _get(value: Mapping[str, Any], name: str, kind: type, where: str) -> Any:
    found = value.get(name)
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise InvalidArgumentError(f"{where}: {name!r} is missing, or not of type {kind.__name__}")
    return found
