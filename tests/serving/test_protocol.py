"""What clients are answered, and what of the repository and the machine nobody is told."""

import socket
import subprocess
import time
from pathlib import Path
from ssl import create_default_context
from urllib.parse import quote, urlsplit

import pytest

from havasu_vc import Repo
from tests.cli.conftest import invoke
from tests.serving.server import catalog, prefix, send, serving

POINTS = "/namespaces/tables/tables/points"
TOKEN = "a-token-of-ann-0123456789"
READER = "a-token-of-bob-0123456789"


def test_endpoints_say_what_may_be_done(repo: Repo, url: str) -> None:
    endpoints = send(url, "/v1/config").body["endpoints"]
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in endpoints
    assert not [each for each in endpoints if each.split(" ")[0] in ("POST", "DELETE")
                and not each.endswith("/metrics")]  # fmt: skip
    for each in endpoints:
        method, path = each.split(" ")
        names = {"{prefix}": prefix(url).rpartition("/")[2], "{namespace}": "tables"}
        for name, value in {**names, "{table}": "points"}.items():
            path = path.replace(name, value)
        assert send(url, path, method=method).status in (200, 204)
    # Java's clients name their requests where they are told that this is of use.
    assert "idempotency-key-lifetime" not in send(url, "/v1/config").body
    with serving(repo.path, "--write", "main") as other:
        assert send(other, "/v1/config").body["idempotency-key-lifetime"] == "PT5M"
        assert "idempotency-key-lifetime" not in send(other, "/v1/config?warehouse=v1").body


def test_head_is_the_branch_that_head_is_on(url: str) -> None:
    assert prefix(url) == prefix(url, "main")
    assert prefix(url, "feature/x") == "/v1/ZmVhdHVyZS94"


MISSING = {
    "/namespaces/tables/tables/lines": "NoSuchTableException",
    "/namespaces/nowhere/tables/points": "NoSuchTableException",
    "/namespaces/tables%1Fpoints/tables/refs": "NoSuchTableException",
    "/namespaces/tables/tables/points@nowhere": "NoSuchTableException",
    "/namespaces/tables/tables/..%2F..%2Fetc": "NoSuchTableException",
    "/namespaces/nowhere": "NoSuchNamespaceException",
    "/namespaces/nowhere/tables": "NoSuchNamespaceException",
    "/namespaces/tables/views/v": "NoSuchViewException",
    "/nothing": "NotFoundException",
}


@pytest.mark.parametrize("path", MISSING)
def test_what_is_missing(url: str, path: str) -> None:
    assert send(url, prefix(url) + path).error == (404, MISSING[path])


@pytest.mark.parametrize("ref", ["nowhere", "HEAD~99", "-x", ":/First", "a\nb", "x" * 4000])
def test_a_ref_that_is_not_there(url: str, ref: str) -> None:
    reply = send(url, f"/v1/config?warehouse={quote(ref)}")
    assert reply.error == (404, "NoSuchWarehouseException")


def test_nothing_of_the_machine_is_told(repo: Repo, url: str) -> None:
    for path in MISSING:
        assert str(repo.path) not in str(send(url, prefix(url) + path).body)


def test_a_table_is_not_sent_twice(url: str) -> None:
    first = send(url, prefix(url) + POINTS)
    tag = first.headers["etag"]
    again = send(url, prefix(url) + POINTS, If_None_Match=tag)
    assert (again.status, again.body, again.headers["etag"]) == (304, None, tag)
    other = send(url, prefix(url, "v1") + POINTS, If_None_Match=tag)
    assert other.status == 200 and other.headers["etag"] != tag
    assert "user-agent" in first.headers["vary"]


def test_only_the_newest_snapshot_where_no_more_are_asked_for(url: str) -> None:
    all_of_them = send(url, prefix(url) + POINTS + "?snapshots=all").body["metadata"]
    newest = send(url, prefix(url) + POINTS + "?snapshots=refs").body["metadata"]
    assert len(all_of_them["snapshots"]) == 3
    assert [each["snapshot-id"] for each in newest["snapshots"]] == [
        all_of_them["current-snapshot-id"]
    ]


def test_lists_come_in_pages(url: str) -> None:
    path = prefix(url, "*") + "/namespaces"
    found, token = [], ""
    while True:
        page = send(url, f"{path}?pageSize=2&pageToken={token}").body
        assert len(page["namespaces"]) <= 2
        found += page["namespaces"]
        token = page.get("next-page-token")
        if token is None:
            break
    assert found == send(url, path + "?pageToken=").body["namespaces"]
    assert send(url, path + "?pageSize=x").error == (400, "BadRequestException")


@pytest.mark.thorough
def test_two_servers_agree(repo: Repo, url: str) -> None:
    with serving(repo.path) as other:
        for ref in ("main", "feature/x", "v1"):
            assert (
                send(url, prefix(url, ref) + POINTS).body
                == send(other, prefix(other, ref) + POINTS).body
            )


def test_web_pages_may_not_send(url: str) -> None:
    assert send(url, "/v1/config", Origin="http://evil.example").error[0] == 403
    assert send(url, "/v1/config", Host="evil.example").error[0] == 403


def test_a_large_body_is_refused(url: str) -> None:
    host = urlsplit(url)
    with socket.create_connection((host.hostname, host.port), timeout=60) as client:
        path = prefix(url) + POINTS + "/metrics"
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {1 << 30}\r\n\r\n"
        client.sendall(head.encode())
        assert b" 413 " in client.recv(100)
    assert send(url, "/v1/config").status == 200


def test_many_slow_clients_are_in_nobodys_way(url: str) -> None:
    host = urlsplit(url)
    slow = [socket.create_connection((host.hostname, host.port)) for _ in range(50)]
    try:
        for each in slow:
            each.sendall(b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        began = time.monotonic()
        assert send(url, prefix(url) + POINTS).status == 200
        assert time.monotonic() - began < 10
    finally:
        for each in slow:
            each.close()


def test_a_token_is_asked_for(repo: Repo, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"# who may\n{TOKEN} Ann <ann@example.org>\n{READER} Bob read-only\n")
    with serving(repo.path, "--token-file", str(tokens), "--write", "main") as url:
        for wrong in ({}, {"Authorization": "Bearer None"}, {"Authorization": f"Basic {TOKEN}"}):
            assert send(url, "/v1/config", **wrong).error == (401, "NotAuthorizedException")
        assert catalog(url, token=TOKEN).list_namespaces() == [("a",), ("tables",)]
        secret = {"credential": f"x:{READER}", "oauth2-server-uri": f"{url}/v1/oauth/tokens"}
        assert catalog(url, **secret).list_namespaces() == [("a",), ("tables",)]
        endpoints = send(url, "/v1/config", Authorization=f"Bearer {READER}").body["endpoints"]
        assert not [each for each in endpoints if each.startswith("DELETE")]
        assert send(url, "/v1/oauth/tokens", method="POST", body=b"client_secret=x").status == 401
        tokens.write_text(f"{TOKEN} Ann <ann@example.org>\n")
        assert send(url, "/v1/config", Authorization=f"Bearer {READER}").status == 401
        assert send(url, "/v1/config", Authorization=f"Bearer {TOKEN}").status == 200


@pytest.mark.thorough
def test_tls(repo: Repo, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out",
         str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    with serving(repo.path, "--tls-cert", str(certificate), "--tls-key", str(key)) as url:
        named = url.replace("127.0.0.1", "localhost")
        context = create_default_context(cafile=str(certificate))
        assert named.startswith("https://")
        assert send(named, "/v1/config", context=context).status == 200


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options",
    [
        ("--token-file", "nowhere"),
        ("--tls-cert", "nowhere"),
        ("--tls-key", "nowhere"),
        ("--host", "host.invalid"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(repo: Repo, options: tuple[str, str]) -> None:
    found = invoke(["-C", repo.path, "serve", "--port", "0", *options])
    assert found.exit_code != 0
    assert "Traceback" not in found.output
