"""Which files of out-db rasters are opened."""

from pathlib import Path

import pytest

from havasu_vc.errors import GeometryError
from havasu_vc.geo.raster_v1_pixels import opener


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "one.tif").write_bytes(b"II*\x00")
    (tmp_path / "secret.tif").write_bytes(b"II*\x00")
    (tmp_path / "images-other").mkdir()
    (tmp_path / "images-other" / "two.tif").write_bytes(b"II*\x00")
    (folder / "link.tif").symlink_to(tmp_path / "secret.tif")
    (folder / "trick.img").write_text("<VRTDataset/>")
    return folder


def test_what_lies_below_an_allowed_folder_is_opened(images: Path) -> None:
    for prefix in (images.as_uri(), str(images), images.as_uri() + "/", str(images / "a")):
        opened = opener([prefix])((images / "a" / "one.tif").as_uri())
        assert opened == str(images / "a" / "one.tif")


def test_nothing_else_is_opened(images: Path) -> None:
    open_url = opener([images.as_uri()])
    for url in (
        (images.parent / "secret.tif").as_uri(),
        images.as_uri() + "/../secret.tif",
        images.as_uri() + "/%2e%2e/secret.tif",
        images.as_uri() + "/link.tif",
        images.as_uri() + "-other/two.tif",
        "file://elsewhere" + str(images / "a" / "one.tif"),
        "https://example.org/one.tif",
        "/vsicurl/https://example.org/one.tif",
        "GTIFF_DIR:1:" + str(images / "a" / "one.tif"),
        "images/a/one.tif",
        images.as_uri() + "/a/one.tif\n",
        "",
    ):
        with pytest.raises(GeometryError, match="settings do not allow"):
            open_url(url)


def test_without_settings_nothing_is_opened(images: Path) -> None:
    for allowed in ((), ("",), ("nonsense",)):
        with pytest.raises(GeometryError) as caught:
            opener(allowed)((images / "a" / "one.tif").as_uri())
        assert f"havasu.outdb.allow {(images / 'a').as_uri()}" in caught.value.hints[0]


def test_a_description_of_an_image_is_not_opened(images: Path) -> None:
    with pytest.raises(GeometryError, match="description"):
        opener([str(images)])((images / "trick.img").as_uri())
    with pytest.raises(GeometryError, match="no such file"):
        opener([str(images)])((images / "gone.tif").as_uri())


def test_servers_are_allowed_by_scheme_host_and_path() -> None:
    open_url = opener(["https://example.org/cogs", "s3://bucket/images/"])

    assert open_url("https://example.org/cogs/a.tif") == "/vsicurl/https://example.org/cogs/a.tif"
    assert open_url("s3://bucket/images/b%20c.tif") == "/vsis3/bucket/images/b c.tif"
    for url in (
        "http://example.org/cogs/a.tif",
        "https://example.org.evil.net/cogs/a.tif",
        "https://me@example.org/cogs/a.tif",
        "https://example.org/cogs/../a.tif",
        "https://example.org/cogs-other/a.tif",
        "s3://bucket/other.tif",
        "ftp://example.org/cogs/a.tif",
    ):
        with pytest.raises(GeometryError, match="settings do not allow"):
            open_url(url)


def test_hints_hold_nothing_that_a_shell_would_run() -> None:
    with pytest.raises(GeometryError) as caught:
        opener([])("https://example.org/$(rm -rf)/a.tif")
    assert caught.value.hints[0].endswith("allow URL")
