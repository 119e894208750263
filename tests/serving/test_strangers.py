"""Requests of strangers: whatever is asked, the answer is one line and no internal error."""

import http.client
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo, Settings
from havasu_vc.exchange.source import SourceOptions
from tests.serving.server import prefix, serving
from tests.support.templates import empty_repo

VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 70, 1e308, "", "x", "\0", "ü☃", "a" * 5000, [], {}, [[]], [{}], "../..",
    "%2e%2e", -(1 << 63), 3.5, "main", ["main"],
)  # fmt: skip
NAMES = (
    "tables", "points", "a%1Fb", "feature%2Fx", "%00", "%", "%zz", "%ff", "..", "☃", "x" * 3000,
    "points@v1", "points@", "@", "points__changes", "__changes", "*", "%1F%1F", " ", "%0a", "-",
    "points@main@{2020-01-01}", "points@:/x", "points@HEAD~99999999999999", "points@main..v1",
)  # fmt: skip
KEYS = (
    "namespace", "name", "schema", "fields", "type", "id", "updates", "requirements", "action",
    "snapshot", "ref", "identifier", "table-changes", "source", "destination", "properties",
    "stage-create", "partition-spec", "write-order", "identifier-field-ids", "snapshot-id",
    "ref-name", "sort-order", "removals", "schema-id", "spec-id", "uuid", "format-version", "spec",
)  # fmt: skip
ACTIONS = (
    "add-snapshot", "set-snapshot-ref", "add-schema", "set-current-schema", "add-spec",
    "set-default-spec", "set-properties", "remove-properties", "assign-uuid", "set-location",
    "upgrade-format-version", "add-sort-order", "set-default-sort-order", "remove-snapshot-ref",
)  # fmt: skip
BODIES = (
    b"[", b'{"a":' * 3000, b"[" * 50_000, b"1e999", b"\xff\xfe", b'{"a":1,"a":2}', b"NaN",
    b'{"name":"\\ud800","schema":{"fields":[]}}', b'{"name":"\\uD83d\\ude00"}',
)  # fmt: skip
HEADERS = (
    "Idempotency-Key", "X-Havasu-Flavour", "X-Havasu-Message", "If-None-Match", "Authorization",
    "User-Agent", "Content-Encoding", "X-Client-Version", "X-Iceberg-Access-Delegation",
)  # fmt: skip
SAID = ("", "x", "é", "a" * 2000, "*", "vended-credentials", "native", "duckdb/v1", '"x"')


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    folder = tmp_path_factory.mktemp("strangers")
    repo = empty_repo(folder / "repo", settings=Settings(engine="local"))
    pq.write_table(pa.table({"id": pa.array(range(20), pa.int64())}), folder / "in.parquet")
    options = SourceOptions(primary_key=("id",))
    repo.import_(folder / "in.parquet", "points", options=options)
    repo.create_tag("v1")
    return repo


@pytest.fixture(scope="module")
def url(repo: Repo) -> Iterator[str]:
    with serving(repo.path, "--write", "*") as found:
        yield found


class Stranger:
    """Somebody who asks at random."""

    def __init__(self, url: str, seed: int) -> None:
        self._start = prefix(url)
        self._host = urlsplit(url).netloc
        self._choose = random.Random(seed)

    def ask(self) -> None:
        """Ask for something, and look at the answer."""
        choose = self._choose
        path, body, headers = quote(self._path(), safe="/%?=&@*!^{}:~.,[]-"), None, {}
        method = choose.choice(["GET", "POST", "POST", "HEAD", "PUT", "OPTIONS", "DELETE"])
        if method == "DELETE" and "points" in path:
            method = "GET"
        if method in ("POST", "PUT"):
            body = self._body()
        if choose.random() < 0.3:
            headers[choose.choice(HEADERS)] = choose.choice(SAID)
        connection = http.client.HTTPConnection(self._host, timeout=60)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        asked = (method, path[:200], (body or b"")[:300], headers)
        assert answer.status < 500, asked
        if method == "HEAD":
            assert not text, asked
        elif answer.status >= 400:
            error = json.loads(text)["error"]
            assert error["code"] == answer.status, asked
            assert error["message"] and error["message"].isprintable(), (asked, error)
            assert "Traceback" not in error["message"] and ".git" not in error["message"], asked

    def _path(self) -> str:
        choose, start = self._choose, self._start
        if choose.random() < 0.2:
            start = "/v1/" + choose.choice(["Kg", "!!!", "%2F", "_w", "Li4v", "x" * 500])
        name, other = choose.choice(NAMES), choose.choice(["points", choose.choice(NAMES)])
        size = choose.choice(["-1", "x", "9" * 400, "1", "0", "²", "٣"])
        return choose.choice(
            [
                f"{start}/namespaces",
                f"{start}/namespaces/{name}",
                f"{start}/namespaces?parent={name}&pageSize={size}&pageToken={size}",
                f"{start}/namespaces/{choose.choice(['tables', name])}/tables/{other}",
                f"{start}/namespaces/tables/tables/points",
                f"{start}/namespaces/{name}/tables",
                f"{start}/namespaces/{name}/views/{other}",
                f"{start}/transactions/commit",
                f"{start}/tables/rename",
                f"/v1/config?warehouse={name}",
                "/v1/oauth/tokens",
                "//",
            ]
        )

    def _body(self) -> bytes:
        choose = self._choose
        kind = choose.random()
        if kind < 0.2:
            return choose.choice(BODIES)
        if kind < 0.6:
            return json.dumps(self._value()).encode()
        updates = [
            {
                "action": choose.choice(ACTIONS),
                **{n: self._value(1) for n in choose.sample(KEYS, 6)},
            }
            for _ in range(choose.randint(1, 3))
        ]
        table = {"namespace": ["tables"], "name": "points"}
        change = {"identifier": table, "requirements": self._value(2), "updates": updates}
        return json.dumps({**change, "table-changes": [change]}).encode()

    def _value(self, depth: int = 0) -> Any:
        choose = self._choose
        if depth > 3 or choose.random() < 0.6:
            return choose.choice(VALUES)
        count = range(choose.randint(0, 4))
        if choose.random() < 0.5:
            return [self._value(depth + 1) for _ in count]
        return {choose.choice(KEYS): self._value(depth + 1) for _ in count}


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(4))
def test_strangers_are_answered(repo: Repo, url: str, seed: int) -> None:
    stranger = Stranger(url, seed)
    for _ in range(300):
        stranger.ask()
    assert repo.table("points").to_arrow().num_rows == 20
    assert list(Repo.open(repo.path).fsck(full=True)) == []
    assert not list(Path(repo.path).glob("*.avro"))
