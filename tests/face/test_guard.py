"""Who is let in: the browser that was given the address, from our own page, and nobody else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.face.conftest import Served

WHAT = ("/", "/assets/app.js", "/api/v1/overview", "/review?commit=HEAD")


@pytest.mark.thorough
def test_an_address_is_good_once(serving: Callable[[Path], Served], repo: Path) -> None:
    served = serving(repo)
    assert served.ask("/")[0] == 403
    assert served.ask("/?token=wrong")[0] == 403
    served.enter()
    path = served.address[served.address.index("/?") :]
    assert served.ask("/")[0] == 200
    # A second browser is not let in by it; the first one may follow it again.
    assert served.ask(path, cookie="x=y")[0] == 403
    assert served.ask(path)[0] == 303


def test_the_cookie_is_for_no_script_and_no_other_site(
    serving: Callable[[Path], Served], repo: Path
) -> None:
    served = serving(repo)
    _, headers, _ = served.ask(served.address[served.address.index("/?") :])
    assert "HttpOnly" in headers["set-cookie"]
    assert "SameSite=Strict" in headers["set-cookie"]
    assert "token" not in headers["location"]


@pytest.mark.few(1)
@pytest.mark.parametrize("path", WHAT)
def test_strangers_are_turned_away(served: Served, path: str) -> None:
    assert served.ask(path)[0] == 200
    port = served.address.split(":")[2].partition("/")[0]
    own = f"127.0.0.1:{port}"
    for wrong in (
        served.ask(path, cookie=""),
        served.ask(path, cookie=f"havasu-{port}=guessed"),
        served.ask(path, host=f"example.org:{port}"),
        served.ask(path, host="127.0.0.1"),
        served.ask(path, origin="http://example.org"),
        served.ask(path, origin="null"),
        served.ask(path, sec_fetch_site="cross-site"),
        served.ask(path, sec_fetch_site="same-site"),
    ):
        status, _, body = wrong
        assert status == 403
        assert len(body.splitlines()) == 1
    assert served.ask(path, origin=f"http://{own}", sec_fetch_site="same-origin")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_what_only_shows_is_asked_for_by_get_alone(served: Served, method: str) -> None:
    for path in WHAT:
        assert served.ask(path, method=method)[0] == 405


@pytest.mark.parametrize(
    "path", ["/assets/../guard.py", "/assets/%2e%2e/guard.py", "/assets/index.html", "/x", "/api/x"]
)
def test_nothing_else_is_served(served: Served, path: str) -> None:
    assert served.ask(path)[0] == 404


def test_every_answer_has_a_policy(served: Served) -> None:
    for path in (*WHAT, "/nothing", "/api/v1/rows?dataset=none"):
        _, headers, _ = served.ask(path)
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
