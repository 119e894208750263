"""Tables: those of the workspace after somebody else wrote to them, and foreign ones to import."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from havasu_vc.formats.iceberg.values import DataFile, DataFileContent
from tests.hostile.items import Item
from tests.hostile.scene import Scene, rows
from tests.workspace import by_hand

__all__ = ["ITEMS"]

_WORK = "status edits commit checkout stash good from"
_TAKE = "status edits commit list dry-run"
_ROW = {"id": 900, "name": "late", "height": 1.0, "geom": None}


def _table(scene: Scene) -> Path:
    """Return the table of the workspace, which is also what there is to import."""
    place = scene.repo / "tables" / "points"
    scene.source = place
    scene.options = ("--primary-key", "id")
    return place


def _newest(table: Path) -> Path:
    found = (table / "metadata").glob("v*.metadata.json")
    return max(found, key=lambda path: int(path.name.split(".")[0][1:]))


def _edited(change: Callable[[Path, Scene], None]) -> Callable[[Scene], None]:
    """Insert a row as an engine does, then do harm."""

    def make(scene: Scene) -> None:
        table = _table(scene)
        by_hand.insert(table, [_ROW])
        change(table, scene)

    return make


def _metadata(change: Callable[[Any, Scene], Any]) -> Callable[[Scene], None]:
    """Change the newest metadata of an edited table, as JSON."""

    def harm(table: Path, scene: Scene) -> None:
        path = _newest(table)
        value = json.loads(path.read_bytes())
        changed = change(value, scene)
        path.unlink()
        path.write_bytes(changed if isinstance(changed, bytes) else json.dumps(value).encode())

    return _edited(harm)


def _always(data: bytes) -> Callable[[Any, Scene], bytes]:
    return lambda _, __: data


def _set(**facts: Any) -> Callable[[Scene], None]:
    said = {name.replace("_", "-"): value for name, value in facts.items()}
    return _metadata(lambda value, _: value.update(said))


def _located(pattern: str) -> Callable[[Scene], None]:
    return _metadata(
        lambda value, scene: value.update(location=pattern.format(out=scene.outside, url=scene.url))
    )


def _manifest_list(pattern: str) -> Callable[[Scene], None]:
    def change(value: Any, scene: Scene) -> None:
        for snapshot in value["snapshots"]:
            snapshot["manifest-list"] = pattern.format(
                out=scene.outside, url=scene.url, here=scene.repo
            )

    return _metadata(change)


def _names(
    pattern: str, content: DataFileContent = DataFileContent.DATA
) -> Callable[[Scene], None]:
    """A snapshot that says that a file of others is one of its own."""

    def make(scene: Scene) -> None:
        table = _table(scene)
        path = pattern.format(out=scene.outside, url=scene.url)
        size = (scene.outside / "secret.parquet").stat().st_size
        ids = (1,) if content is DataFileContent.EQUALITY_DELETES else ()
        file = DataFile(path, 1, size, content=content, equality_ids=ids)
        by_hand.write_snapshot(table, come=[file])

    return make


def _facts(**facts: Any) -> Callable[[Scene], None]:
    """A snapshot with a data file of its own, of which manifests lie."""

    def make(scene: Scene) -> None:
        from dataclasses import replace

        from havasu_vc.tables.table import read_table

        table = _table(scene)
        written = by_hand.data_file(read_table(table), [_ROW])
        by_hand.write_snapshot(table, come=[replace(written, **facts)])

    return make


def _data_is(make_file: Callable[[Path, Scene], None]) -> Callable[[Scene], None]:
    """A data file of the table that is something else."""

    def harm(table: Path, scene: Scene) -> None:
        (path,) = (table / "data").glob("00000-*.parquet")
        path.unlink()
        make_file(path, scene)

    return _edited(harm)


def _to(name: str) -> Callable[[Path, Scene], None]:
    return lambda path, scene: path.symlink_to(name if name[0] == "/" else scene.outside / name)


def _pipe(path: Path, scene: Scene) -> None:
    os.mkfifo(path)


def _folder(path: Path, scene: Scene) -> None:
    path.mkdir()


def _hint(data: bytes) -> Callable[[Scene], None]:
    def harm(table: Path, scene: Scene) -> None:
        hint = table / "metadata" / "version-hint.text"
        hint.unlink()
        hint.write_bytes(data)

    return _edited(harm)


def _hint_is(make_file: Callable[[Path, Scene], None]) -> Callable[[Scene], None]:
    def harm(table: Path, scene: Scene) -> None:
        hint = table / "metadata" / "version-hint.text"
        hint.unlink()
        make_file(hint, scene)

    return _edited(harm)


def _metadata_is(make_file: Callable[[Path, Scene], None]) -> Callable[[Scene], None]:
    def harm(table: Path, scene: Scene) -> None:
        path = _newest(table)
        path.unlink()
        make_file(path, scene)

    return _edited(harm)


def _avro(pattern: str, data: Callable[[bytes], bytes]) -> Callable[[Scene], None]:
    def harm(table: Path, scene: Scene) -> None:
        path = max((table / "metadata").glob(pattern), key=lambda p: p.stat().st_mtime_ns)
        old = path.read_bytes()
        path.unlink()
        path.write_bytes(data(old))

    return _edited(harm)


def _zigzag(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def _sync(data: bytes) -> bytes:
    return data[-16:]


def _block(count: int, size: int, body: bytes) -> Callable[[bytes], bytes]:
    """Replace the blocks of a container by one that says this."""

    def change(data: bytes) -> bytes:
        sync = _sync(data)
        header = data[: data.index(sync) + 16]
        return header + _zigzag(count) + _zigzag(size) + body + sync

    return change


def _bomb() -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(300)) + packer.flush()


def _avro_header(schema: bytes, codec: bytes = b"null") -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        pairs = [(b"avro.schema", schema), (b"avro.codec", codec)]
        head = b"Obj\x01" + _zigzag(len(pairs))
        for name, value in pairs:
            head += _zigzag(len(name)) + name + _zigzag(len(value)) + value
        return head + b"\0" + bytes(16)

    return change


def _gzip_bomb(table: Path, scene: Scene) -> None:
    path = _newest(table)
    number = path.name.split(".")[0]
    path.unlink()
    data = gzip.compress(b'{"a":"' + b"x" * (300 << 20) + b'"}')
    (path.parent / f"{number}.gz.metadata.json").write_bytes(data)


def _place_is(
    make_place: Callable[[Path, Scene], None], *, named: bool = True
) -> Callable[[Scene], None]:
    """Put something where the folder of the table was.

    What somebody names as a source may be a link, which is followed, or a pipe, which is waited
    for; of these only those are tried that nobody named (`named=False`).
    """

    def make(scene: Scene) -> None:
        table = _table(scene)
        shutil.rmtree(table)
        make_place(table, scene)
        if not named:
            scene.source = None

    return make


def _whole(scene: Scene) -> None:
    shutil.rmtree(scene.repo / "tables")
    (scene.repo / "tables").symlink_to(scene.outside)
    _table(scene)


def _metadata_folder(table: Path, scene: Scene) -> None:
    shutil.move(table / "metadata", scene.folder / "elsewhere")
    (table / "metadata").symlink_to(scene.folder / "elsewhere")


def _many_versions(table: Path, scene: Scene) -> None:
    data = _newest(table).read_bytes()
    for number in range(100, 3100):
        (table / "metadata" / f"v{number}.metadata.json").write_bytes(data)


def _column(**facts: Any) -> Callable[[Scene], None]:
    def change(value: Any, scene: Scene) -> None:
        for schema in value["schemas"]:
            schema["fields"][1].update(facts)

    return _metadata(change)


def _copy_of(change: Callable[[Any, Scene], None], kind: str) -> Callable[[Scene], None]:
    """A table of others to import."""

    def make(scene: Scene) -> None:
        folder = scene.folder / "foreign"
        (folder / "metadata").mkdir(parents=True)
        change(folder, scene)
        scene.source = Path(f"{kind}:{folder}")
        scene.options = ("--no-primary-key",)

    return make


def _foreign(pattern: str) -> Callable[[Scene], None]:
    """An Iceberg table that names a file outside its folder."""

    def make(scene: Scene) -> None:
        _names(pattern)(scene)
        folder = scene.folder / "foreign"
        shutil.copytree(scene.repo / "tables" / "points", folder, symlinks=True)
        scene.source = Path(f"iceberg:{folder}")

    return make


def _delta(*actions: dict[str, Any]) -> Callable[[Scene], None]:
    """A Delta table with these actions after its schema; OUT and URL are places."""

    def make(scene: Scene) -> None:
        folder = scene.folder / "delta"
        (folder / "_delta_log").mkdir(parents=True)
        pq.write_table(rows(0).select(["id", "name"]), folder / "a.parquet")
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (("id", "long"), ("name", "string"))
        ]
        schema = json.dumps({"type": "struct", "fields": fields})
        head: list[dict[str, Any]] = [
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {
                "metaData": {
                    "id": "x",
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": schema,
                    "partitionColumns": [],
                    "configuration": {},
                }
            },
        ]
        text = "\n".join(json.dumps(each) for each in (*head, *actions))
        text = text.replace("OUT", str(scene.outside)).replace("URL", scene.url)
        (folder / "_delta_log" / f"{0:020}.json").write_text(text)
        scene.source = Path(f"delta:{folder}")
        scene.options = ("--no-primary-key",)

    return make


def _add(path: str, **more: Any) -> dict[str, Any]:
    facts = {"path": path, "partitionValues": {}, "size": 700, "modificationTime": 0}
    return {"add": facts | {"dataChange": True} | more}


def _hostile_list(schema: bytes) -> Callable[[Scene], None]:
    return _avro("snap-*.avro", _avro_header(schema))


_DEEP_SCHEMA = b'{"type":"array","items":' * 20_000 + b'"int"' + b"}" * 20_000
_ITSELF = b'{"type":"record","name":"a","fields":[{"name":"a","type":"a"}]}'
_NAMED_FILES = {
    "a file": "file://{out}/secret.parquet",
    "a path": "{out}/secret.parquet",
    "a path that climbs": "../../../../outside/secret.parquet",
    "http": "{url}/secret.parquet",
    "s3 of others": "s3://bucket/secret.parquet",
    "a device": "/dev/zero",
    "colours": "\x1b[31m\u202e.parquet",
    "nothing": "",
}


def _said(facts: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return list(facts.items())


ITEMS = [
    *(Item("table", f"a data file by {w}", _names(p), _WORK) for w, p in _NAMED_FILES.items()),
    *(
        Item("table", f"{kind.name.lower()} by a path", _names("{out}/secret.parquet", kind), _WORK)
        for kind in (DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES)
    ),
    *(
        Item("table", f"a manifest list by {what}", _manifest_list(pattern), _WORK)
        for what, pattern in _NAMED_FILES.items()
    ),
    *(
        Item("table", f"a location by {what}", _located(pattern), "status commit checkout from")
        for what, pattern in _NAMED_FILES.items()
    ),
    *(
        Item("table", f"metadata: {what}", _metadata(_always(data)), _WORK)
        for what, data in {
            "nested 100,000 deep": b"[" * 100_000,
            "a number of 1e6 digits": b'{"format-version":' + b"9" * 1_000_000 + b"}",
            "a text of 10 MB": b'{"a":"' + b"x" * 10_000_000 + b'"}',
            "no text": b"\xff\xfe",
            "nothing": b"",
            "NaN": b'{"format-version":NaN}',
        }.items()
    ),
    *(
        Item("table", f"metadata: {what}", _set(**facts), "status commit checkout edits")
        for what, facts in _said(
            {
                "format 99": {"format_version": 99},
                "a snapshot of 2^200": {"current_snapshot_id": 2**200},
                "last column 2^62": {"last_column_id": 2**62},
                "last column 2^31": {"last_column_id": 2**31 - 1},
                "a sequence of 2^63": {"last_sequence_number": 2**63},
                "times of 2^200": {"last_updated_ms": 2**200},
                "no schemas": {"schemas": []},
                "snapshots that are text": {"snapshots": "x"},
                "refs of nonsense": {"refs": {"../../x": {"snapshot-id": 1, "type": "branch"}}},
                "properties of others": {"properties": {"write.data.path": "/etc", "a": [1]}},
                "10,000 snapshots of nothing": {"snapshots": [{}] * 10_000},
            }
        )
    ),
    *(
        Item("table", f"a column {what}", _column(**facts), "status edits commit checkout")
        for what, facts in _said(
            {
                "called by markup": {"name": "<script>alert(1)</script>"},
                "with colours": {"name": "\x1b[31m\u202e\x9b"},
                "of 100,000 characters": {"name": "n" * 100_000},
                "of a huge type": {"type": "fixed[99999999999]"},
                "of a decimal without end": {"type": f"decimal({'9' * 5000},0)"},
                "of nonsense": {"type": {"type": "map"}},
                "with an id of 2^62": {"id": 2**62},
            }
        )
    ),
    *(
        Item("table", f"a data file {what}", _facts(**facts), "status edits commit checkout")
        for what, facts in _said(
            {
                "of 2^62 rows": {"record_count": 2**62},
                "of -1 rows": {"record_count": -1},
                "of 2^62 bytes": {"file_size": 2**62},
                "of another size": {"file_size": 5},
            }
        )
    ),
    *(
        Item(
            "table",
            f"a data file that is {what}",
            _data_is(make),
            "status edits commit checkout stash",
        )
        for what, make in {
            "a link to a secret": _to("secret.parquet"),
            "a link to a device": _to("/dev/zero"),
            "a pipe": _pipe,
            "a folder": _folder,
        }.items()
    ),
    *(
        Item(
            "table", f"metadata that is {what}", _metadata_is(make), "status edits commit checkout"
        )
        for what, make in {
            "a link to a secret": _to("secret.json"),
            "a link to a device": _to("/dev/zero"),
            "a pipe": _pipe,
            "a folder": _folder,
        }.items()
    ),
    *(
        Item("table", f"a hint: {what}", _hint(data), "status commit checkout from")
        for what, data in {
            "a path": b"../../../outside/secret",
            "2^62": b"%d" % 2**62,
            "1e6 digits": b"9" * 1_000_000,
            "no text": b"\xff\xfe",
            "-1": b"-1",
            "10 MB": b"1" + b" " * 10_000_000,
        }.items()
    ),
    *(
        Item("table", f"a hint that is {what}", _hint_is(make), "status commit checkout")
        for what, make in {
            "a link to a secret": _to("secret.txt"),
            "a link to a device": _to("/dev/zero"),
            "a pipe": _pipe,
        }.items()
    ),
    *(
        Item("table", f"manifests: {what}", _avro(pattern, change), "status edits commit checkout")
        for pattern in ("snap-*.avro", "*-m*.avro")
        for what, change in {
            f"{pattern[:4]} of nothing": lambda data: b"",
            f"{pattern[:4]} with 2^60 records": _block(2**60, 4, b"abcd"),
            f"{pattern[:4]} with -1 records": _block(-1, 4, b"abcd"),
            f"{pattern[:4]} with a block of 2^60": _block(1, 2**60, b"abcd"),
            f"{pattern[:4]} that inflates to 300 MB": lambda data: _block(1, len(_bomb()), _bomb())(
                data
            ),
            f"{pattern[:4]} with a deep schema": _avro_header(_DEEP_SCHEMA),
            f"{pattern[:4]} with a schema of itself": _avro_header(_ITSELF),
            f"{pattern[:4]} with an unknown codec": _avro_header(b'"int"', b"\x1b[31m"),
        }.items()
    ),
    Item(
        "table",
        "metadata in gzip of 300 MB",
        _edited(_gzip_bomb),
        "status commit checkout",
        slow=True,
    ),
    Item("table", "3,000 versions", _edited(_many_versions), "status commit checkout"),
    Item(
        "table", "metadata that lies elsewhere", _edited(_metadata_folder), "status commit checkout"
    ),
    Item(
        "table",
        "a link to outside",
        _place_is(lambda p, s: p.symlink_to(s.outside), named=False),
        _WORK,
    ),
    Item("table", "a link to itself", _place_is(lambda p, s: p.symlink_to(p)), _WORK),
    Item("table", "a file", _place_is(lambda p, s: p.touch()), _WORK),
    Item("table", "a pipe", _place_is(lambda p, s: os.mkfifo(p), named=False), _WORK),
    Item("table", "all tables are a link to outside", _whole, _WORK),
    *(
        Item("foreign table", f"a file by {what}", _foreign(pattern), "list dry-run import")
        for what, pattern in _NAMED_FILES.items()
    ),
    *(
        Item("delta table", what, _delta(*actions), "list dry-run import")
        for what, actions in {
            "a file by a path": (_add("OUT/secret.parquet"),),
            "a file by a URI": (_add("file://OUT/secret.parquet"),),
            "a file that climbs": (_add("../../outside/secret.parquet"),),
            "a file by escapes": (_add("%2e%2e/%2e%2e/outside/secret.parquet"),),
            "a file by http": (_add("URL/secret.parquet"),),
            "a file that is a device": (_add("/dev/zero"),),
            "statistics nested deep": (_add("a.parquet", stats="[" * 100_000),),
            "a size of 2^70": (_add("a.parquet", size=2**70),),
            "a vector outside": (
                _add(
                    "a.parquet",
                    deletionVector={
                        "storageType": "p",
                        "pathOrInlineDv": "OUT/secret.txt",
                        "offset": 1,
                        "sizeInBytes": 10,
                        "cardinality": 1,
                    },
                ),
            ),
            "a vector of 2^60 rows": (
                _add(
                    "a.parquet",
                    deletionVector={
                        "storageType": "i",
                        "pathOrInlineDv": "0" * 40,
                        "sizeInBytes": 2**60,
                        "cardinality": 2**60,
                    },
                ),
            ),
            "a sidecar": ({"sidecar": {"path": "OUT/secret.parquet", "sizeInBytes": 1}},),
        }.items()
    ),
]
