import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptDatasetError, InvalidArgumentError
from havasu_vc.store.commits import format_commit, parse_commit, read_commit
from havasu_vc.store.objects import EMPTY_TREE, Signature, parse_signature
from havasu_vc.store.repository import GitRepository

NAMES = st.text(st.characters(exclude_characters="<>\n\0", exclude_categories=["Cs"]), max_size=9)
SIGNATURES = st.builds(
    Signature,
    NAMES.map(str.strip),
    NAMES,
    st.integers(0, 2**40),
    st.integers(-14 * 60, 14 * 60),
)
IDS = st.binary(min_size=20, max_size=20).map(bytes.hex)


@pytest.mark.thorough
@given(SIGNATURES)
def test_signatures_are_read_as_written(signature: Signature) -> None:
    assert parse_signature(str(signature)) == signature


@given(IDS, st.lists(IDS, max_size=3).map(tuple), SIGNATURES, SIGNATURES, st.text(max_size=30))
def test_commits_are_read_as_written(
    tree: str, parents: tuple[str, ...], author: Signature, committer: Signature, message: str
) -> None:
    message = message.encode("utf-8", "replace").decode()
    data = format_commit(tree, parents, author=author, committer=committer, message=message)
    found = parse_commit("0" * 40, data)
    assert (found.tree, found.parents, found.message) == (tree, parents, message)
    assert (found.author, found.committer) == (author, committer)


def test_a_commit_is_the_one_that_git_makes(repository: GitRepository) -> None:
    who = {"NAME": "Zoë", "EMAIL": "z@example.org", "DATE": "1577790000 -0330"}
    environment = {f"GIT_{r}_{k}": v for k, v in who.items() for r in ("AUTHOR", "COMMITTER")}
    tree = repository.objects.write("tree", b"")
    made = repository.git(
        "commit-tree", tree, stdin="über\n\nzwei\n".encode(), environment=environment
    ).text
    signature = Signature("Zoë", "z@example.org", 1577790000, -210)
    data = format_commit(
        EMPTY_TREE, (), author=signature, committer=signature, message="über\n\nzwei\n"
    )
    assert repository.objects.read(made)[1] == data
    assert read_commit(repository.objects, made).subject == "über"


def test_other_encodings_and_signatures_are_read(repository: GitRepository) -> None:
    head = f"tree {EMPTY_TREE}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n"
    signed = "gpgsig -----BEGIN\n \n tree x\n -----END\n"
    latin = repository.objects.write(
        "commit", head.encode() + b"encoding ISO-8859-1\n" + signed.encode() + b"\n\xfcber"
    )
    assert read_commit(repository.objects, latin).message == "über"
    odd = parse_commit("0" * 40, head.encode() + b"encoding none-such\n\n\xfcber")
    assert odd.message == "\ufffdber"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"tree x\n\n",
        f"tree {EMPTY_TREE}\n\nmessage".encode(),
        f"tree ../{EMPTY_TREE}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\n".encode(),
    ],
)
def test_what_is_no_commit(repository: GitRepository, data: bytes) -> None:
    with pytest.raises(ValueError):
        parse_commit("0" * 40, data)
    made = repository.git(
        "hash-object", "-w", "--literally", "-t", "commit", "--stdin", stdin=data
    ).text
    with pytest.raises(CorruptDatasetError, match="as a commit"):
        read_commit(repository.objects, made)


def test_a_text_in_a_strange_encoding_is_read_as_well_as_it_can_be() -> None:
    """Some encodings have no way to replace what they do not know."""
    who = "M <m> 1 +0000"
    head = f"tree {'1' * 40}\nauthor {who}\ncommitter {who}\nencoding"
    for name in ("idna", "punycode", "nosuch"):
        data = f"{head} {name}\n\n".encode() + b"gr\xfc\xdfe\n"
        assert parse_commit("2" * 40, data).message.startswith("gr")


def test_nobody_can_be_written_whose_name_breaks_a_line() -> None:
    odd = Signature("<b>\x1b[31m", "m", 1)
    with pytest.raises(InvalidArgumentError, match="no commit can be of"):
        format_commit("1" * 40, (), author=odd, committer=odd, message="x")


def test_who_is_no_name_and_address_is_taken_for_a_name() -> None:
    data = f"tree {EMPTY_TREE}\nauthor Nobody 0 +0000\ncommitter A <a> 1 +0000\n\n".encode()
    found = parse_commit("0" * 40, data)
    assert found.author == Signature("Nobody 0 +0000", "", 0)
    assert found.committer == Signature("A", "a", 1)
