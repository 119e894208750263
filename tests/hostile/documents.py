"""Datasets whose documents, entries, pointers and data files lie."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.formats.lfs import Pointer, format_pointer
from tests.hostile.datasets import (
    change_document,
    change_entry,
    change_snapshot,
    put_data_file,
    put_documents,
    put_entry,
    put_pointer,
    replace_data_file,
)
from tests.hostile.items import Item
from tests.hostile.scene import Scene, rows

__all__ = ["ITEMS"]

DEEP = b"[" * 100_000
OBJECTS = b'{"a":' * 100_000
DIGITS = b"9" * 1_000_000
LONG = b'"' + b"x" * 10_000_000 + b'"'
_READ = "good diff export meta fsck review"
_TEXT = "diff show meta review patch log"


def _document(name: str, data: bytes) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        put_documents(scene, {name: data})

    return make


def _column(number: int, **facts: Any) -> Callable[[Scene], None]:
    """Change what the schema says of a column."""

    def make(scene: Scene) -> None:
        def change(schema: Any) -> None:
            _columns(schema)[number].update(facts)

        change_document(scene, "schema.json", change)

    return make


def _columns(schema: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = schema["fields"] if isinstance(schema, dict) else schema
    return found


def _more_columns(count: int) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        def change(schema: Any) -> None:
            fields = _columns(schema)
            fields += [{**fields[1], "id": 100 + n, "name": f"c{n}"} for n in range(count)]

        change_document(scene, "schema.json", change)

    return make


def _nested(depth: int) -> Callable[[Scene], None]:
    """A column of lists of lists of …, written by hand as JSON would not nest so deep."""

    def make(scene: Scene) -> None:
        def change(schema: Any) -> None:
            kind: Any = "string"
            for n in range(depth):
                kind = {
                    "type": "list",
                    "element-id": 1000 + n,
                    "element-required": False,
                    "element": kind,
                }
            _columns(schema)[1]["type"] = kind

        change_document(scene, "schema.json", change)

    return make


def _twice(scene: Scene) -> None:
    def change(schema: Any) -> None:
        fields = _columns(schema)
        fields.append(dict(fields[1]))

    change_document(scene, "schema.json", change)


def _duplicate_keys(name: str) -> Callable[[Scene], None]:
    return _document(name, b'{"a": 1, "a": 2}\n')


def _sums(**sums: Any) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        change_snapshot(scene, {name.replace("_", "-"): value for name, value in sums.items()})

    return make


def _entry(**facts: Any) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        said = {name.replace("_", "-"): value for name, value in facts.items()}
        change_entry(scene, lambda entry: entry.update(said))

    return make


def _entry_bytes(data: bytes) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        change_entry(scene, lambda _: data)

    return make


def _statistics(**facts: Any) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        def change(entry: dict[str, Any]) -> None:
            for one in entry["statistics"].values():
                one.update(facts)

        change_entry(scene, change)

    return make


def _location(pattern: str) -> Callable[[Scene], None]:
    """An entry of a file that is said to lie elsewhere, without a pointer."""

    def make(scene: Scene) -> None:
        secret = (scene.outside / "secret.parquet").read_bytes()
        import hashlib

        file = hashlib.sha256(secret).hexdigest()
        location = pattern.format(out=scene.outside, url=scene.url)
        put_entry(scene, file, location=location, size=len(secret), rows=1, statistics={})

    return make


def _of_another(scene: Scene) -> None:
    """An entry that stands under the name of a file of another dataset."""
    file = put_data_file(scene, _parquet(rows(0)))
    put_entry(scene, file)


def _missing(scene: Scene) -> None:
    put_entry(scene, "ab" * 32)


def _pointer(data: bytes) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        put_pointer(scene, data)

    return make


def _targets(**facts: Any) -> Callable[[Scene], None]:
    """A delete file that deletes what is not there."""

    def make(scene: Scene) -> None:
        path = next(
            name for name in scene.names("points/.havasu-dataset/files") if name.endswith(".json")
        )
        data_file = path.rpartition("/")[2].removesuffix(".json")
        made = pa.table({"file": [data_file] * 3, "pos": pa.array([0, 2**62, -5])})
        file = put_data_file(scene, _parquet(made))
        put_entry(
            scene,
            file,
            content="deletes",
            targets={data_file: facts.get("count", 3)},
            statistics={},
            rows=3,
        )

    return make


def _parquet(table: pa.Table, **how: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **how)
    return sink.getvalue()


def _with_ids(table: pa.Table) -> pa.Table:
    """Give columns the field ids that the dataset of the template has."""
    fields = [
        f.with_metadata({b"PARQUET:field_id": str(n + 1).encode()})
        for n, f in enumerate(table.schema)
    ]
    return table.cast(pa.schema(fields))


def _data(make_bytes: Callable[[], bytes], **facts: Any) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        said = {name.replace("_", "-"): value for name, value in facts.items()}
        replace_data_file(scene, make_bytes(), **said)

    return make


def _column_bytes(name: str, value: Any, kind: pa.DataType | None = None) -> Callable[[], bytes]:
    """A data file in which a column has this value in each row."""

    def make() -> bytes:
        table = rows(1)
        at = table.schema.get_field_index(name)
        given = value() if callable(value) else value
        column = pa.array([given] * table.num_rows, kind)
        return _parquet(_with_ids(table.set_column(at, name, column)))

    return make


def _point_count(count: int) -> bytes:
    return struct.pack("<BII", 1, 2, count) + bytes(64)


def _collections(depth: int) -> bytes:
    return struct.pack("<BII", 1, 7, 1) * depth + struct.pack("<BII", 1, 7, 0)


def _cut_footer() -> bytes:
    data = _parquet(_with_ids(rows(1)))
    return data[:-8] + struct.pack("<I", 0x7FFFFFFF) + b"PAR1"


def _other_schema() -> bytes:
    return _parquet(pa.table({"id": ["text"], "other": [1.5]}))


def _markup(value: str) -> Callable[[Scene], None]:
    """Rows, a title and a column that hold markup."""

    def make(scene: Scene) -> None:
        replace_data_file(scene, _column_bytes("name", value)())

    return make


def _title(data: bytes) -> Callable[[Scene], None]:
    return _document("title", data)


def _policy(data: bytes) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        filled = data.replace(b"OUT", str(scene.outside).encode())
        scene.commit({".havasu/policy.toml": filled})

    return make


_NAMES = ("schema.json", "partition.json", "sort-order.json", "properties.json")
_WRONG = {
    "nested 100,000 deep": DEEP,
    "objects 100,000 deep": OBJECTS,
    "a number of 1e6 digits": b'{"schema-id": ' + DIGITS + b"}",
    "a text of 10 MB": LONG,
    "a key that stands twice": b'{"a": 1, "a": 2}',
    "NaN": b'{"schema-id": NaN}',
    "1e999": b'{"schema-id": 1e999, "spec-id": 1e999, "order-id": 1e999, "fields": []}',
    "half a surrogate": b'{"schema-id": "\\ud800"}',
    "null": b"null",
    "no text": b"\xff\xfe",
}


def _said(facts: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return list(facts.items())


ITEMS = [
    *(
        Item("document", f"{name}: {what}", _document(name, data), _READ)
        for what, data in _WRONG.items()
        for name in _NAMES
        if name == "schema.json" or what in ("nested 100,000 deep", "a number of 1e6 digits")
    ),
    Item("document", "a CRS of 5 MB", _document("crs/EPSG:4326.wkt", b"GEOGCS[" * 700_000), _READ),
    Item("document", "a CRS nested deep", _document("crs/EPSG:4326.wkt", b"A[" * 100_000), _READ),
    Item("document", "a title with colours", _title(b"\x1b[31mred\x1b]0;x\x07\xc2\x9b31m"), _TEXT),
    Item("document", "a title that turns around", _title("\u202eevil\u2066".encode()), _TEXT),
    Item("document", "a title of markup", _title(b"</script><img src=x onerror=alert(1)>"), _TEXT),
    Item("document", "a title that is no text", _title(b"\xff\xfe\x00"), _TEXT),
    Item(
        "document",
        "a title of 20 MB",
        _title(b"x" * 20_000_000),
        "meta diff ls",
        unpacked=20_000_000,
    ),
    Item("document", "a column called by markup", _column(1, name="<script>alert(1)"), _TEXT),
    Item("document", "a column with colours", _column(1, name="\x1b[31m\x9b\u202e"), _TEXT),
    Item("document", "a column of 100,000 characters", _column(1, name="n" * 100_000), _READ),
    Item("document", "a column that is a path", _column(1, name="../../x"), "export copy checkout"),
    Item("document", "a column without a name", _column(1, name=""), _READ),
    Item("document", "a column with zero bytes", _column(1, name="a\x00b"), _READ),
    Item("document", "a column of half a surrogate", _column(1, name="\ud800"), _READ),
    Item("document", "a type of 10^9 bytes", _column(1, type="fixed[1000000000]"), _READ),
    Item("document", "a decimal of 10^9 digits", _column(1, type="decimal(1000000000,2)"), _READ),
    Item("document", "a type of 1e6 digits", _column(1, type=f"fixed[{'9' * 1_000_000}]"), _READ),
    Item("document", "an id of 2^62", _column(1, id=2**62), _READ + " checkout"),
    Item("document", "an id of 2^200", _column(1, id=2**200), _READ + " checkout"),
    Item("document", "an id of -1", _column(1, id=-1), _READ),
    Item("document", "two columns that are one", _twice, _READ),
    Item(
        "document",
        "5,000 columns",
        _more_columns(5000),
        "good diff meta",
        columns=5_000,
        slow=True,
    ),
    Item("document", "lists 200 deep", _nested(200), _READ),
    Item("document", "a past document of another name", _document("past/../x", b"x"), _READ),
    *(
        Item("snapshot", what, _sums(**sums), "ls good diff export checkout fsck review merge")
        for what, sums in _said(
            {
                "2^62 rows": {"rows": 2**62, "bytes": 2**62},
                "-1 rows": {"rows": -1},
                "rows of 5,000 digits": {"rows": 10**4000},
                "2^62 rows deleted": {"deleted_rows": 2**62},
                "rows that are text": {"rows": "many"},
                "no digests": {"digests": {}},
                "digests of what is not there": {"digests": {"9" * 4000: "ab" * 16}},
                "another format": {"format": 99},
                "a format of nonsense": {"format": [[[]]]},
            }
        )
    ),
    *(
        Item("entry", what, _entry(**facts), "good diff export checkout fsck blame merge optimize")
        for what, facts in _said(
            {
                "2^62 rows": {"rows": 2**62},
                "no rows": {"rows": 0},
                "10^30 bytes": {"size": 10**30},
                "another size": {"size": 7},
                "a schema that is a path": {"schema": "../../../x"},
                "a schema that is markup": {"schema": "<img>\x1b[31m"},
                "split offsets of 2^62": {"split_offsets": [2**62]},
                "a negative split offset": {"split_offsets": [-5]},
                "10^5 split offsets": {"split_offsets": list(range(100_000))},
                "bounds of a text": {"geometry_bounds": {"4": ["a"]}},
                "bounds of two": {"geometry_bounds": {"4": [1, 2]}},
                "bounds without end": {"geometry_bounds": {"4": [-1e308, -1e308, 1e308, 1e308]}},
                "bounds of 10^400": {"geometry_bounds": {"4": [10**400, 0, 0, 0]}},
                "a partition of nonsense": {"partition": {"a": {"b": 1}}},
                "a field of 4,000 digits": {"statistics": {"9" * 4000: {}}},
                "no content": {"content": "views"},
            }
        )
    ),
    Item("entry", "bounds that lie", _statistics(lower=100, upper=-100), "good diff export fsck"),
    Item("entry", "2^62 values", _statistics(values=2**62, bytes=2**62), "good diff export fsck"),
    Item("entry", "-1 nulls", _statistics(nulls=-1), "good diff export fsck checkout"),
    Item("entry", "bounds of lists", _statistics(lower=[[]]), "good diff export fsck"),
    Item("entry", "nested 100,000 deep", _entry_bytes(DEEP), "good diff export fsck checkout"),
    Item("entry", "a number of 1e6 digits", _entry_bytes(b'{"rows":' + DIGITS + b"}"), _READ),
    Item("entry", "nothing", _entry_bytes(b""), _READ),
    *(
        Item(
            "entry", f"a file at {where}", _location(where), "diff export checkout fetch push fsck"
        )
        for where in (
            "file://{out}/secret.parquet",
            "{out}/secret.parquet",
            "file://localhost/{out}/secret.parquet",
            "file://{out}/../outside/secret.parquet",
            "{url}/secret.parquet",
            "s3://bucket/secret.parquet",
            "file:///dev/zero",
        )
    ),
    Item("entry", "a file at colours", _location("\x1b[31m\ud800"), "diff export checkout fsck"),
    Item("entry", "a file of another table", _of_another, "diff export fsck checkout push"),
    Item("entry", "a file that is nowhere", _missing, "good diff export fsck checkout push clone"),
    Item("entry", "deletes of rows that are not there", _targets(), "diff export checkout fsck"),
    Item("entry", "2^62 deletes", _targets(count=2**62), "diff export checkout fsck optimize"),
    *(
        Item("pointer", what, _pointer(data), "good diff export fsck push clone fetch gc")
        for what, data in {
            "10^18 bytes": format_pointer(Pointer("ab" * 32, 10**18)),
            "a size of 4,000 digits": b"version https://git-lfs.github.com/spec/v1\noid sha256:"
            + b"ab" * 32
            + b"\nsize "
            + b"9" * 4000
            + b"\n",
            "a size below nothing": b"version https://git-lfs.github.com/spec/v1\noid sha256:"
            + b"ab" * 32
            + b"\nsize -1\n",
            "an id that is a path": b"version https://git-lfs.github.com/spec/v1\noid sha256:"
            + b"../" * 21
            + b"x\nsize 1\n",
            "an extension": b"version https://git-lfs.github.com/spec/v1\next-0-evil sha256:"
            + b"ab" * 32
            + b"\noid sha256:"
            + b"ab" * 32
            + b"\nsize 1\n",
            "nothing": b"",
            "10 MB": b"version https://git-lfs.github.com/spec/v1\n" + b"x" * 10_000_000,
        }.items()
    ),
    *(
        Item("data file", what, _data(make), "good diff export fsck checkout validate")
        for what, make in {
            "a footer of 2 GB": _cut_footer,
            "nothing": lambda: b"",
            "no Parquet": lambda: b"PAR1 words PAR1",
            "other columns": _other_schema,
            "a line of 2^31 points": _column_bytes("geom", _point_count(2**31)),
            "a line of 2^32 - 1 points": _column_bytes("geom", _point_count(2**32 - 1)),
            "collections 100,000 deep": _column_bytes("geom", _collections(100_000)),
            "collections 40 deep": _column_bytes("geom", _collections(40)),
            "geometry of an unknown type": _column_bytes("geom", struct.pack("<BI", 1, 999)),
            "geometry of no bytes": _column_bytes("geom", b""),
            "coordinates of NaN": _column_bytes(
                "geom", struct.pack("<BIdd", 1, 1, float("nan"), float("inf"))
            ),
            "text for ids": _column_bytes("id", "text"),
            "text that is no text": _column_bytes("name", b"\xff\xfe\xed\xa0\x80", pa.binary()),
            "nulls for keys": _column_bytes("id", None, pa.int64()),
            "one key thrice": _column_bytes("id", 7),
        }.items()
    ),
    *(
        Item("values", what, _markup(value), "diff show review export blame show-row")
        for what, value in {
            "markup": "</script><script>alert(1)</script><!--",
            "colours": "\x1b[31mred\x1b]0;title\x07\x9b31m",
            "text that turns around": "\u202eevil\u2066",
            "formulas": '=HYPERLINK("http://x")',
            "zero bytes": "a\x00b",
            "line ends": "a\r\nb\u2028c\u2029d\x85e",
            "1 MB": "x" * 1_000_000,
        }.items()
    ),
    *(
        Item("policy", what, _policy(data), "check good review commit merge")
        for what, data in {
            "nested 100,000 deep": b"a = " + DEEP,
            "tables 10,000 deep": b"[" + b".".join([b"a"] * 10_000) + b"]\n",
            "a number of 1e6 digits": b"a = " + DIGITS,
            "a pattern without end": b'[[dataset]]\npath = "' + b"*a" * 40 + b'"\n',
            "no text": b"\xff\xfe",
            "10 MB": b"# " + b"x" * 10_000_000,
            "a file of others": b'include = "OUT/secret.txt"\n',
            "a name of colours": b'"\\u001b[31m" = 1\n',
        }.items()
    ),
]
