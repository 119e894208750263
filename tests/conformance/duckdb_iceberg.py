"""DuckDB with its extension for Iceberg, in a Python of its own, which reads tables one by one.

The extension fits one DuckDB, so it is not the DuckDB of the tests (`scripts/engines.sh`).
"""

import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

__all__ = ["Reader", "reading"]

_READER = """
import base64, glob, json, os, sys
import duckdb, duckdb_extension_avro, duckdb_extension_iceberg, duckdb_extension_spatial
import pyarrow as pa
database = duckdb.connect()
# It is written where answers are, once a statement lasts two seconds, as loading may too.
database.execute("SET enable_progress_bar = false")
extensions = [duckdb_extension_avro, duckdb_extension_iceberg]
extensions += [duckdb_extension_spatial] if "spatial" in sys.argv else []
for each in extensions:
    folder = os.path.dirname(each.__file__)
    (path,) = glob.glob(folder + "/**/*.duckdb_extension", recursive=True)
    database.execute(f"LOAD '{path}'")
# Without it a UUID would be a text.
database.execute("SET TimeZone = 'UTC'; SET arrow_lossless_conversion = true")
for line in sys.stdin:
    try:
        table, condition = json.loads(line)
        query = f"SELECT * FROM iceberg_scan('{table}') WHERE {condition}"
        found = database.execute(query).to_arrow_table()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, found.schema) as stream:
            stream.write_table(found)
        answer = {"rows": base64.b64encode(sink.getvalue()).decode()}
    except duckdb.Error as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
"""


class Reader:
    """A DuckDB that waits for names of tables."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def read(self, table: Path, condition: str = "true") -> pa.Table:
        """Return the rows of a table, of a folder or a document of metadata, by a condition."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(table), condition]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"DuckDB ended with {self.process.wait()} at {table} WHERE {condition}"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return pa.ipc.open_stream(base64.b64decode(answer["rows"])).read_all()


@contextmanager
def reading(python: Path, *extensions: str) -> Iterator[Reader]:
    """Start a DuckDB, with some more extensions, and end it."""
    with subprocess.Popen(
        [python, "-c", _READER, *extensions],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Reader(process)
        assert process.stdin is not None
        process.stdin.close()
