"""A Hypothesis machine: a repository on disk against a model of plain dicts.

Each step is a command of a user. After it the real git finds nothing wrong, HEAD holds
what the model holds, and what was refused changed nothing. Diffs between any two commits
are those of the model, and applying one turns the one into the other.
"""

import io
import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from havasu_vc import Repo
from havasu_vc.errors import (
    DatasetNotFoundError,
    HavasuError,
    InvalidInputError,
    NoChangesError,
)
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.writers.protocol import WriterOptions
from havasu_vc.writers.registry import writer_named
from tests.datasets.thresholds import tiny_thresholds
from tests.stateful.model import (
    WIDER,
    Column,
    Key,
    ModelTable,
    Row,
    compare,
    counted_changes,
    rows_of,
    tables,
    tokens,
    with_new_rows,
    write_parquet,
)
from tests.support.examples import examples
from tests.support.sound import LOCAL, assert_sound, frozen, loaded, status

PATHS = ("a", "b/c", "Größe")
Tables = dict[str, ModelTable]


def has_upkeep() -> bool:
    try:
        import havasu_vc.upkeep.maintenance
    except ImportError:
        return False
    return bool(havasu_vc.upkeep.maintenance)


def patch_of(repo: Repo, revision: str) -> bytes:
    out = io.StringIO()
    info, diffs = repo.create_patch(revision)
    writer_named("patch")(diffs, out, WriterOptions(commit=info))
    return out.getvalue().encode()


class RepoMachine(RuleBasedStateMachine):
    """Commands in any order."""

    commits = Bundle("commits")

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.folder = Path(tempfile.mkdtemp(prefix="machine-"))
        self.stack.callback(shutil.rmtree, self.folder)
        self.history: dict[str, Tables] = {}
        self.branches: dict[str, str] = {}
        self.branch = "main"
        self.number = 0

    @initialize(tiny=st.booleans(), user=st.booleans())
    def start(self, tiny: bool, user: bool) -> None:
        if tiny:
            self.stack.enter_context(tiny_thresholds(diffs=True))
        self.repo = Repo.init(self.folder / "repo", settings=LOCAL)
        top = self.repo.path
        if user:
            (top / "README.md").write_text("read me\n")
            self.repo.git.git("add", "README.md")
            (top / "README.md").write_text("read me, please\n")
            (top / "b").mkdir()
            (top / "b" / "notes.txt").write_text("untracked\n")
        self.status = status(self.repo)

    def teardown(self) -> None:
        self.stack.close()

    # What is there

    @property
    def head(self) -> str | None:
        return self.branches.get(self.branch)

    @property
    def now(self) -> Tables:
        return {} if self.head is None else self.history[self.head]

    def is_there(self) -> bool:
        return bool(self.now)

    def pick(self, data: st.DataObject, *, keyed: bool | None = None) -> str | None:
        chosen = [
            path
            for path, table in sorted(self.now.items())
            if keyed is None or bool(table.key) is keyed
        ]
        return data.draw(st.sampled_from(chosen)) if chosen else None

    def file(self, suffix: str) -> Path:
        self.number += 1
        return self.folder / f"file{self.number}{suffix}"

    def settle(self, commit: str | None, path: str, table: ModelTable) -> str:
        """Take a commit into the model; without one, nothing may have changed."""
        if commit is None:
            assert self.head is not None
            assert not changes_of(self.now.get(path), table)
            return self.head
        after = {**self.now, path: table}
        # The same edit of the same commit in the same second is the same commit.
        assert self.history.get(commit, after) == after
        self.history[commit] = {**self.now, path: table}
        self.branches[self.branch] = commit
        return commit

    # Rows in

    @rule(
        target=commits,
        data=st.data(),
        path=st.sampled_from(PATHS),
        order=st.sampled_from(["key", "hilbert", "none"]),
        fresh=tables(),
    )
    def import_table(self, data: st.DataObject, path: str, order: str, fresh: ModelTable) -> str:
        if path in self.now:
            return self.head or ""
        rows = data.draw(rows_of(fresh, most=20))
        table = with_new_rows(fresh, rows)
        if order == "hilbert" and not any(c.kind == "point" for c in fresh.columns):
            order = "key"
        file = self.file(".parquet")
        write_parquet(file, table, rows)
        key = tuple(table.column(token).name for token in table.key)
        result = self.repo.import_(file, path, options=SourceOptions(primary_key=key), order=order)
        assert result.datasets[path].inserts == len(rows)
        return self.settle(result.commit, path, table)

    @precondition(is_there)
    @rule(target=commits, data=st.data())
    def import_again(self, data: st.DataObject) -> str:
        """A new release: other rows, some columns more or less."""
        path = self.pick(data)
        assert path is not None
        old = self.now[path]
        columns = [c for c in old.columns if c.token in old.key or data.draw(st.integers(0, 5))]
        if len(columns) == len(old.key):
            columns = list(old.columns)
        if data.draw(st.booleans()):
            name = f"more{next(tokens)}"
            columns.append(Column(next(tokens), name, data.draw(st.sampled_from(["int", "text"]))))
        given = old.with_columns(columns)
        kept = [dict(r) for r in given.rows.values() if data.draw(st.booleans())]
        new = data.draw(rows_of(given, most=4))
        rows = list(with_new_rows(given, [*kept, *new]).rows.values())
        table = with_new_rows(given, rows)
        file = self.file(".parquet")
        write_parquet(file, table, data.draw(st.permutations(rows)))
        key = tuple(table.column(token).name for token in table.key)
        result = self.repo.import_(
            file, path, replace=True, options=SourceOptions(primary_key=key) if key else None
        )
        return self.settle(result.commit, path, table)

    @precondition(is_there)
    @rule(target=commits, data=st.data())
    def upsert(self, data: st.DataObject) -> str:
        path = self.pick(data, keyed=True)
        if path is None:
            return self.head or ""
        old = self.now[path]
        given = data.draw(st.lists(st.sampled_from(old.others), unique=True)) if old.others else []
        chosen = {*old.key, *(column.token for column in given)}
        rows = data.draw(rows_of(old, most=8))
        after = {key: dict(row) for key, row in old.rows.items()}
        for row in rows:
            part = {token: value for token, value in row.items() if token in chosen}
            key = old.key_of(row)
            after[key] = {**after.get(key, {}), **part}
        result = self.repo.write(path, old.arrow(rows, sorted(chosen)))
        table = old.with_rows(after)
        counts = result.changes.get(path, ChangeCounts())
        assert counts.inserts == len(table.rows) - len(old.rows) and not counts.deletes
        assert counts.total == len(changes_of(old, table))
        return self.settle(result.commit, path, table)

    @precondition(is_there)
    @rule(target=commits, data=st.data())
    def append(self, data: st.DataObject) -> str:
        path = self.pick(data)
        assert path is not None
        old = self.now[path]
        rows = data.draw(rows_of(old, most=6))
        if old.key:
            rows = [row for row in rows if old.key_of(row) not in old.rows]
            table = old.with_rows({**old.rows, **{old.key_of(row): row for row in rows}})
        else:
            table = with_new_rows(old, [*old.rows.values(), *rows])
        result = self.repo.write(path, old.arrow(rows), mode="append")
        assert (result.commit is None) == (not rows)
        return self.settle(result.commit, path, table)

    @precondition(is_there)
    @rule(target=commits, data=st.data())
    def delete(self, data: st.DataObject) -> str:
        path = self.pick(data, keyed=True)
        if path is None:
            return self.head or ""
        old = self.now[path]
        gone = (
            data.draw(st.lists(st.sampled_from(sorted(old.rows)), unique=True)) if old.rows else []
        )
        rows = [dict(zip(old.key, key, strict=True)) for key in gone]
        absent = [r for r in data.draw(rows_of(old, most=2)) if old.key_of(r) not in old.rows]
        result = self.repo.write(path, old.arrow([*rows, *absent], old.key), mode="delete")
        table = old.with_rows({key: row for key, row in old.rows.items() if key not in gone})
        assert result.changes.get(path, ChangeCounts()).total == len(gone)
        return self.settle(result.commit, path, table)

    @precondition(is_there)
    @rule(target=commits, data=st.data())
    def overwrite(self, data: st.DataObject) -> str:
        path = self.pick(data)
        assert path is not None
        old = self.now[path]
        kept = [dict(row) for row in old.rows.values() if data.draw(st.booleans())]
        rows = list(with_new_rows(old, [*kept, *data.draw(rows_of(old, most=4))]).rows.values())
        result = self.repo.write(path, old.arrow(rows), mode="overwrite")
        return self.settle(result.commit, path, with_new_rows(old, rows))

    # Meta items

    @precondition(is_there)
    @rule(target=commits, data=st.data(), title=st.sampled_from([None, "Title", "Größe\n2"]))
    def retitle(self, data: st.DataObject, title: str | None) -> str:
        path = self.pick(data)
        assert path is not None
        old = self.now[path]
        result = self.repo.set_meta(path, {"title": title})
        assert (result.commit is None) == (title == old.title)
        return self.settle(result.commit, path, replace(old, title=title))

    @precondition(is_there)
    @rule(
        target=commits,
        data=st.data(),
        what=st.lists(
            st.sampled_from(["add", "drop", "rename", "swap", "reorder", "widen"]),
            min_size=1,
            max_size=3,
        ),
    )
    def evolve(self, data: st.DataObject, what: list[str]) -> str:
        path = self.pick(data)
        assert path is not None
        old = self.now[path]
        new = old
        for each in what:
            new = evolved(new, each, data)
        ids = {c["name"]: c for c in self.repo.get_meta(path, ["schema.json"])["schema.json"]}
        documents = []
        for column in new.columns:
            known = {c.token: c for c in old.columns}.get(column.token)
            document: dict[str, Any] = {} if known is None else dict(ids[known.name])
            document["name"] = column.name
            if known is None:
                document |= TYPES[column.kind]
            elif known.kind != column.kind:
                document["size"] = 64
            documents.append(document)
        result = self.repo.set_meta(path, {"schema.json": documents})
        assert result.commit is not None or new.columns == old.columns
        return self.settle(result.commit, path, new)

    # Patches

    @precondition(is_there)
    @rule(target=commits, commit=commits)
    def apply_patch_of(self, commit: str) -> str:
        """A patch applies where its parent's datasets are as they were, and gives its result."""
        if commit not in self.history:
            return self.head or ""
        info = self.repo.commit_info(commit)
        before = self.history[info.parents[0]] if info.parents else {}
        after = self.history[commit]
        touched = {p for p in after if after[p] != before.get(p)}
        patch = patch_of(self.repo, commit)
        if any(self.now.get(path) != before.get(path) for path in touched):
            with frozen(self.repo):
                try:
                    result = self.repo.apply_patch(patch, commit=False)
                except HavasuError:
                    result = None
            return self.head or ""
        if not touched:
            return self.head or ""
        try:
            result = self.repo.apply_patch(patch)
        except NoChangesError:
            assert all(self.now.get(path) == after[path] for path in touched)
            return self.head or ""
        assert result.commit is not None
        self.history[result.commit] = {**self.now, **{path: after[path] for path in touched}}
        self.branches[self.branch] = result.commit
        return result.commit

    # Branches

    @precondition(is_there)
    @rule(name=st.sampled_from(["main", "other", "third/x"]), commit=commits)
    def switch(self, name: str, commit: str) -> None:
        if name in self.branches:
            self.repo.switch(name)
        elif commit in self.history:
            self.repo.switch(name, create=True, start=commit)
            self.branches[name] = commit
        else:
            return
        self.branch = name
        assert self.repo.head_branch == name

    @rule()
    def reopen(self) -> None:
        self.repo = Repo.open(self.repo.path, settings=LOCAL)

    # Looking

    @rule(first=commits, second=commits)
    def diff(self, first: str, second: str) -> None:
        if first not in self.history or second not in self.history:
            return
        self.check_diff(first, second)

    def check_diff(self, first: str, second: str) -> None:
        old, new = self.history[first], self.history[second]
        found = {d.path: d for d in loaded(self.repo.diff(f"{first}..{second}"))}
        back = {d.path: d for d in loaded(self.repo.diff(f"{second}..{first}"))}
        for path in sorted(old.keys() | new.keys()):
            if not comparable(old.get(path), new.get(path)):
                continue
            wanted = compare(old.get(path), new.get(path))
            if path not in found:
                assert not wanted.changes and not wanted.counted
                continue
            pairs = [(c["old"], c["new"]) for b in found[path].changes for c in b.data.to_pylist()]
            check_pairs(pairs, wanted, old.get(path), new.get(path))
            inverted = [
                (c["new"], c["old"]) for b in back[path].changes for c in b.data.to_pylist()
            ]
            some = new.get(path) or old[path]
            # Dropping a column changes no row, adding it back changes those with a value.
            same = {c.token for c in (old.get(path) or some).columns} == {
                c.token for c in (new.get(path) or some).columns
            }
            if same and some.key and key_order(old.get(path)) == key_order(new.get(path)):
                assert inverted == pairs
            elif same and some.key:
                assert sorted(map(repr, inverted)) == sorted(map(repr, pairs))
            elif same:
                assert counted_changes(iter(inverted)) == counted_changes(iter(pairs))

    @precondition(is_there)
    @rule(data=st.data())
    def export_and_import(self, data: st.DataObject) -> None:
        path = self.pick(data)
        assert path is not None
        table = self.now[path]
        file = self.file(".parquet")
        assert self.repo.export(path, file).rows == len(table.rows)
        key = tuple(table.column(token).name for token in table.key)
        other = Repo.init(self.file(""), settings=LOCAL)
        other.import_(file, "back", options=SourceOptions(primary_key=key))
        check_rows(other, "back", "HEAD", table)
        replaced = self.repo.import_(
            file, path, replace=True, options=SourceOptions(primary_key=key) if key else None
        )
        assert replaced.datasets[path].total == 0
        if replaced.commit is not None:  # CRS items may come with a file
            self.settle(replaced.commit, path, table)

    # Refused

    @precondition(is_there)
    @rule(
        data=st.data(),
        how=st.sampled_from(
            ["append", "twice", "unknown", "mode", "narrow", "import", "key", "patch", "drop"]
        ),
    )
    def refuse(self, data: st.DataObject, how: str) -> None:
        path = self.pick(data, keyed=True)
        if path is None:
            return
        table = self.now[path]
        rows = [dict(row) for row in table.rows.values()]
        with frozen(self.repo):
            try:
                self.misuse(how, path, table, rows)
            except (InvalidInputError, DatasetNotFoundError) as error:
                assert error.message and "\n" not in error.message
            else:
                raise AssertionError(f"{how} was not refused")

    def misuse(self, how: str, path: str, table: ModelTable, rows: list[Row]) -> None:
        def stop() -> None:
            raise InvalidInputError("there is nothing to try this with")

        repo = self.repo
        match how:
            case "append":
                stop() if not rows else repo.write(path, table.arrow(rows), mode="append")
            case "twice":
                stop() if not rows else repo.write(path, table.arrow([rows[0], rows[0]]))
            case "unknown":
                more = table.arrow(rows).append_column("none such", [[0] * len(rows)])
                stop() if not rows else repo.write(path, more)
            case "mode":
                repo.write(path, table.arrow(rows), mode="replace")
            case "narrow":
                columns = repo.get_meta(path, ["schema.json"])["schema.json"]
                for column in columns:
                    if column["dataType"] != "boolean":
                        column["dataType"] = "boolean"
                        column.pop("size", None)
                repo.set_meta(path, {"schema.json": columns})
            case "import":
                file = self.file(".parquet")
                write_parquet(file, table, rows)
                repo.import_(file, path)
            case "key":
                name = table.column(table.key[0]).name
                arrow = table.arrow(rows)
                index = arrow.schema.names.index(name)
                nulls = arrow.set_column(index, name, pa_nulls(arrow, name))
                stop() if not rows else repo.write(path, nulls)
            case "patch":
                repo.apply_patch(
                    b'{"kart.patch/v1":{"message":"m"},"kart.diff/v1+hexwkb":'
                    b'{"none/such":{"feature":[{"++":{"a":1}}]}}}'
                )
            case "drop":
                columns = repo.get_meta(path, ["schema.json"])["schema.json"]
                kept = [c for c in columns if "primaryKeyIndex" not in c]
                repo.set_meta(path, {"schema.json": []}) if not kept else stop()

    # Upkeep

    @precondition(lambda self: self.is_there() and has_upkeep())
    @rule(target=commits)
    def optimize(self) -> str:
        result = self.repo.optimize()
        if result.commit is None:
            return self.head or ""
        self.history[result.commit] = self.now
        self.branches[self.branch] = result.commit
        return result.commit

    @precondition(lambda self: self.is_there() and has_upkeep())
    @rule(full=st.booleans())
    def fsck(self, full: bool) -> None:
        problems = list(self.repo.fsck(full=full))
        assert not problems, f"fsck: {problems}"

    @precondition(lambda self: self.is_there() and has_upkeep())
    @rule()
    def gc(self) -> None:
        self.repo.gc(grace_days=0)

    # Always

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "repo"):
            return
        assert_sound(self.repo)
        assert status(self.repo) == self.status
        assert set(self.repo.datasets()) == set(self.now)
        for path, table in self.now.items():
            check_rows(self.repo, path, "HEAD", table)

    @precondition(is_there)
    @rule(commit=commits)
    def look_back(self, commit: str) -> None:
        for path, table in self.history.get(commit, {}).items():
            check_rows(self.repo, path, commit, table)


TYPES: dict[str, dict[str, Any]] = {
    "int": {"dataType": "integer", "size": 32},
    "long": {"dataType": "integer", "size": 64},
    "float": {"dataType": "float", "size": 32},
    "double": {"dataType": "float", "size": 64},
    "text": {"dataType": "text"},
    "flag": {"dataType": "boolean"},
    "point": {"dataType": "geometry", "geometryType": "POINT", "geometryCRS": "EPSG:4326"},
}


def pa_nulls(arrow: Any, name: str) -> Any:
    import pyarrow as pa

    return pa.nulls(arrow.num_rows, arrow.schema.field(name).type)


def evolved(table: ModelTable, what: str, data: st.DataObject) -> ModelTable:
    """Return a table after one change of its columns, where that can be done."""
    columns = list(table.columns)
    others = table.others
    match what:
        case "add":
            kind = data.draw(st.sampled_from(list(TYPES)))
            free = [n for n in ("name", "n", "x", "added") if n not in table.names]
            if free:
                columns.append(Column(next(tokens), free[0], kind))
        case "drop" if len(others) > 1:
            columns.remove(data.draw(st.sampled_from(others)))
        case "rename":
            column = data.draw(st.sampled_from(columns))
            free = [n for n in ("name", "n", "x", "called") if n not in table.names]
            if free:
                columns[columns.index(column)] = replace(column, name=free[0])
        case "swap" if len(others) > 1:
            one, two = others[:2]
            first, second = columns.index(one), columns.index(two)
            columns[first] = replace(one, name=two.name)
            columns[second] = replace(two, name=one.name)
        case "reorder":
            columns = data.draw(st.permutations(columns))
        case "widen":
            for column in others:
                if column.kind in WIDER:
                    columns[columns.index(column)] = replace(column, kind=WIDER[column.kind])
                    break
    return table.with_columns(columns)


def changes_of(old: ModelTable | None, new: ModelTable | None) -> list[Any]:
    found = compare(old, new)
    return list(found.changes) or list(found.counted or ())


def comparable(old: ModelTable | None, new: ModelTable | None) -> bool:
    """Whether the model knows what the diff of two versions is."""
    if old is None or new is None:
        return True
    if {c.token for c in old.columns}.isdisjoint(c.token for c in new.columns):
        return False  # two datasets that happen to have the same path
    if old.key != new.key:
        return False
    return bool(old.key) or old.columns == new.columns


def order_of(key: Key) -> tuple[Any, ...]:
    return tuple(part.encode() if isinstance(part, str) else part for part in key)


def key_order(table: ModelTable | None) -> list[int]:
    """Return a key's columns in the order of the schema, which is how rows sort."""
    return [] if table is None else [c.token for c in table.columns if c.token in table.key]


def check_pairs(
    pairs: list[Any], wanted: Any, old: ModelTable | None, new: ModelTable | None
) -> None:
    some = new or old
    assert some is not None
    if not some.key:
        assert counted_changes(iter(pairs)) == wanted.counted
        return
    keys: list[Key] = []
    sorting: list[Key] = []
    for before, after in pairs:
        table, row = (new, after) if after is not None else (old, before)
        assert table is not None
        keys.append(tuple(row[table.column(token).name] for token in table.key))
        sorting.append(tuple(row[table.column(token).name] for token in key_order(some)))
    assert sorting == sorted(sorting, key=order_of), f"out of order: {sorting}"
    assert len(keys) == len(wanted.changes)
    assert dict(zip(keys, pairs, strict=True)) == wanted.changes


def check_rows(repo: Repo, path: str, revision: str, table: ModelTable) -> None:
    arrow = repo.table(path, revision).to_arrow()
    assert arrow.schema.names == table.names
    rows = arrow.to_pylist()
    view = repo.dataset(path, revision)
    assert view.rows == len(rows) == len(table.rows)
    if table.key:
        names = [table.column(token).name for token in table.key]
        found = {tuple(row[name] for name in names): row for row in rows}
        assert found == {key: table.plain(row) for key, row in table.rows.items()}
    else:
        assert counted_changes((row, None) for row in rows) == counted_changes(
            (table.plain(row), None) for row in table.rows.values()
        )
    if revision == "HEAD" and path != "back":
        assert repo.get_meta(path).get("title") == table.title


QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def test_a_repository_agrees_with_its_model() -> None:
    run_state_machine_as_test(
        RepoMachine, settings=examples(60, stateful_step_count=25, suppress_health_check=QUIET)
    )


@pytest.mark.slow
def test_a_repository_agrees_with_its_model_for_long() -> None:
    run_state_machine_as_test(
        RepoMachine,
        settings=examples(150, stateful_step_count=50, suppress_health_check=QUIET),
    )
