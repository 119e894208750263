import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from havasu_vc.errors import InvalidArgumentError, StorageError
from havasu_vc.remotes.hosts import GITEA, GitHub, GitLab, HostClient
from tests.support.host import BOT, READER, WRITER, StandIn, serving

MARKER = "<!-- ours -->"


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with serving(StandIn()) as found:
        yield found


def github(stand_in: StandIn, token: str | None = WRITER) -> GitHub:
    return GitHub.of(stand_in.address, "me/data", token)


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_one_comment_is_kept(stand_in: StandIn, kind: str) -> None:
    host = github(stand_in) if kind == "github" else GitLab.of(stand_in.address, "12", WRITER)
    for _ in range(120):
        stand_in.add("somebody else's", user="somebody")
    stand_in.add(f"{MARKER} written by somebody who knows", user="somebody")
    answers = [host.keep_comment(1, MARKER, f"{MARKER}\n{text}") for text in ("one", "two")]

    ours = [each["body"] for each in stand_in.comments if each["user"]["login"] == BOT]
    assert [answer.status for answer in answers] == [201, 200]
    assert ours == [f"{MARKER}\ntwo"]
    assert stand_in.comments[120]["body"].endswith("who knows")


def test_the_hosts_limits(stand_in: StandIn) -> None:
    host = github(stand_in)

    assert host.comment(1, "x" * host.limit).status == 201
    assert host.comment(1, "x" * (host.limit + 1)).status == 422
    lab = GitLab.of(stand_in.address, "12", WRITER)
    assert lab.comment(1, "x" * lab.limit).status == 201
    assert "too long" in lab.comment(1, "x" * (lab.limit + 1)).message


@pytest.mark.parametrize("token", [READER, None])
def test_a_token_that_may_not_write(stand_in: StandIn, token: str | None) -> None:
    answer = github(stand_in, token).comment(1, "x")

    assert answer.refused
    assert stand_in.comments == []


def test_a_busy_host_is_asked_again(stand_in: StandIn) -> None:
    waited: list[float] = []
    client = HostClient(stand_in.address, {"Authorization": f"Bearer {WRITER}"}, waited.append)
    stand_in.failing = [(503, {"Retry-After": "7"}), (429, {"Retry-After": "60"}), (500, {})]

    assert client.request("GET", "/user").status == 200
    assert waited == [7.0, 60.0, 4.0]


def in_seconds(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    "headers",
    [
        # What names a time is made when the test runs, which may be minutes after this is read.
        lambda: {"Retry-After": "60"},
        lambda: {"Retry-After": in_seconds(60)},
        lambda: {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time()) + 60)},
    ],
    ids=["seconds", "date", "reset"],
)
@pytest.mark.parametrize("status", [403, 429])
def test_too_many_requests(
    stand_in: StandIn, status: int, headers: Callable[[], dict[str, str]]
) -> None:
    waited: list[float] = []
    client = HostClient(stand_in.address, {"Authorization": f"Bearer {WRITER}"}, waited.append)
    stand_in.failing = [(status, headers())]
    host = GitHub(client, "me/data")

    # It was not done the first time, so it may be done again.
    assert host.comment(1, "x").status == 201
    assert len(stand_in.comments) == 1
    assert waited == [pytest.approx(60, abs=15)]


def test_a_host_that_wants_to_be_left_alone_is(stand_in: StandIn) -> None:
    waited: list[float] = []
    client = HostClient(stand_in.address, {"Authorization": f"Bearer {WRITER}"}, waited.append)
    reset = str(int(time.time()) + 3000)
    stand_in.failing = [(403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset})]

    answer = client.request("GET", "/user")

    assert (answer.status, answer.limited, answer.refused) == (403, True, False)
    assert waited == []
    assert "it asks to wait" in answer.message


def test_requests_that_remain_are_no_limit(stand_in: StandIn) -> None:
    client = HostClient(stand_in.address, {}, lambda _: pytest.fail("it waits"))
    stand_in.failing = [(403, {"X-RateLimit-Remaining": "12", "X-RateLimit-Reset": "9999999999"})]

    assert client.request("GET", "/user").refused


def test_a_comment_is_not_made_twice(stand_in: StandIn) -> None:
    client = HostClient(stand_in.address, {"Authorization": f"Bearer {WRITER}"}, lambda _: None)
    stand_in.failing = [(502, {})]

    answer = client.request("POST", "/repos/me/data/issues/1/comments", {"body": "x"})
    assert (answer.status, len(stand_in.requests)) == (502, 1)


def test_redirects_are_not_followed(stand_in: StandIn) -> None:
    with serving(StandIn()) as elsewhere:
        stand_in.failing = [(302, {"Location": f"{elsewhere.address}/user"})]
        answer = github(stand_in).client.request("GET", "/user")

    assert answer.status == 302
    assert elsewhere.requests == []


def test_errors_never_tell_the_token(stand_in: StandIn) -> None:
    with serving(StandIn()) as gone:
        address = gone.address
    client = HostClient(address, {"Authorization": f"Bearer {WRITER}"}, lambda _: None)

    with pytest.raises(StorageError, match=r"127\.0\.0\.1 does not answer") as caught:
        client.request("GET", "/user")
    assert WRITER not in str(caught.value)


@pytest.mark.parametrize(
    "api", ["http://api.example.org", "file:///etc", "ftp://x", "https://a:b@host", "", "https://"]
)
def test_addresses_that_are_not_talked_to(api: str) -> None:
    with pytest.raises(InvalidArgumentError):
        HostClient(api, {})


def test_pull_requests(stand_in: StandIn) -> None:
    stand_in.pull(3, "main", "feature")
    stand_in.pull(4, "main", "feature", repo="fork/data")
    host = github(stand_in)

    assert [each.same_repository for each in host.pull_requests_of("feature")] == [True, False]
    assert host.pull_request(4).head == "feature"
    with pytest.raises(StorageError, match="pull request 9 cannot be seen: 404 Not Found"):
        host.pull_request(9)


def test_who_may_write(stand_in: StandIn) -> None:
    stand_in.permissions = {"ann": "write", "bob": "read"}
    host = github(stand_in)

    assert host.may_write("ann")
    assert not host.may_write("bob")
    assert not host.may_write("../../user")


def test_gitea_gives_whole_lists(stand_in: StandIn) -> None:
    host = GitHub.of(f"{stand_in.address}/api/v1", "me/data", WRITER, dialect=GITEA)
    for _ in range(50):
        stand_in.add("somebody else's", user="somebody")
    stand_in.pull(3, "main", "feature")
    stand_in.pull(4, "main", "other")
    answers = [host.keep_comment(1, MARKER, f"{MARKER}\n{text}") for text in ("one", "two")]

    assert [answer.status for answer in answers] == [201, 200]
    assert [each["body"] for each in stand_in.comments[50:]] == [f"{MARKER}\ntwo"]
    asked = [path for method, path in stand_in.requests if method == "GET"]
    # A list that is as long as a page may go on; what comes again is no more of it.
    assert [path.rpartition("page=")[2] for path in asked] == ["1", "2", "1"]
    assert [each.number for each in host.pull_requests_of("feature")] == [3]
