"""`.havasu/config.toml` is read as it is written, and only its own line is changed."""

import pytest

from havasu_vc.errors import InvalidFileError
from havasu_vc.formats.repository_config import parse_repository_config, with_data_url

OLD = "s3://maps/old"
NEW = "s3://maps/wells?region=eu-west-1"
TEXTS = [
    "",
    "# ours\n",
    "[data]\n",
    f'[data]\nurl = "{OLD}"\n',
    f"[ data ] # where\n  url='{OLD}' # old\nother = 1\n\n[more]\nurl = 1\n",
    f'[more]\nurl = "x"\n[data]\nurl = "{OLD}"',
    "[data]",
    '[more]\ntext = """\nline\n"""\n',
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_url_is_written_and_all_else_stays(text: str) -> None:
    changed = with_data_url(text.encode(), NEW)

    assert parse_repository_config(changed).data_url == NEW
    assert with_data_url(changed, NEW) == changed
    for line in text.splitlines():
        assert OLD in line or line.encode() in changed


@pytest.mark.parametrize(
    "text",
    [
        "data = 3",
        "[data]\nurl = 3",
        "[data]\nurl = []",
        "[data\n",
        "\xff",
        "a" * 70_000,
        "[data]\nurl = 'wells'",
        "[data]\nurl = 's3://maps/../other'",
        "[data]\nurl = 'file:///srv/%2e%2e/etc'",
        "[data]\nurl = 's3://maps/a b'",
        '[data]\nurl = "s3://maps/\\u001b[31m"',
        "[data]\nurl = 's3://maps/`date`'",
        "[data]\nurl = 's3://[maps'",
    ],
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidFileError):
        parse_repository_config(text.encode("latin-1"))


def test_what_only_its_writer_understands_is_left_to_them() -> None:
    with pytest.raises(InvalidFileError, match="change"):
        with_data_url(f'data = {{ url = "{OLD}" }}\n'.encode(), NEW)
    with pytest.raises(InvalidFileError, match="change"):
        with_data_url(f'data.url = "{OLD}"\n'.encode(), NEW)


def test_what_is_not_known_is_passed_over() -> None:
    assert parse_repository_config(b"[later]\nx = 1\n").data_url is None
    assert parse_repository_config(b"[data]\nx = 1\n").data_url is None
