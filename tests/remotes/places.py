"""Where the data of a remote lies, looked at and spoilt past our own code."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyarrow.fs import FileSelector, FileSystem, LocalFileSystem, S3FileSystem

from havasu_vc import Repo
from tests.remotes.sharing import named
from tests.support.servers import S3_ENVIRONMENT

__all__ = ["Place", "bucket_at", "folder_at"]


@dataclass(frozen=True)
class Place:
    """A folder or a bucket that `havasu.data.url` names."""

    url: str
    system: FileSystem
    root: str

    def names(self) -> set[str]:
        """Return the data files that are there."""
        selector = FileSelector(f"{self.root}/objects", recursive=True, allow_not_found=True)
        return {info.base_name for info in self.system.get_file_info(selector) if info.is_file}

    def notes(self, kind: str) -> list[str]:
        """Return the paths of claims (`pushes`) or of prunings."""
        selector = FileSelector(f"{self.root}/{kind}", allow_not_found=True)
        return [info.path for info in self.system.get_file_info(selector) if info.is_file]

    def left(self) -> list[str]:
        """Return the paths of what is in the making, or was left so."""
        selector = FileSelector(f"{self.root}/temporary", recursive=True, allow_not_found=True)
        return [info.path for info in self.system.get_file_info(selector) if info.is_file]

    def read(self, name: str) -> bytes:
        with self.system.open_input_stream(self.path(name)) as stream:
            data: bytes = stream.read()
        return data

    def put(self, name: str, data: bytes) -> None:
        if isinstance(self.system, LocalFileSystem):
            path = Path(self.path(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)  # it may be linked to elsewhere
        with self.system.open_output_stream(self.path(name)) as stream:
            stream.write(data)

    def remove(self, name: str) -> None:
        self.system.delete_file(self.path(name))

    def path(self, name: str) -> str:
        return f"{self.root}/objects/{name[:2]}/{name[2:4]}/{name}"

    def assert_has_all_of(self, server: Path) -> None:
        """Check that no ref of a server names data that is not here, and right."""
        for name in named(server):
            assert hashlib.sha256(self.read(name)).hexdigest() == name

    def use(self, repo: Repo) -> None:
        """Have a repository keep its data here from now on."""
        repo.config.set("havasu.data.url", self.url)


def folder_at(path: Path) -> Place:
    return Place(path.as_uri(), LocalFileSystem(), str(path))


@contextmanager
def bucket_at(endpoint: str, name: str, *, through: str | None = None) -> Iterator[Place]:
    """Make a bucket, and say in the environment where it is, or by what it is reached."""
    parts = urlsplit(endpoint)
    with pytest.MonkeyPatch.context() as patch:
        for key, value in _environment(through or endpoint).items():
            patch.setenv(key, value)
        system = S3FileSystem(
            endpoint_override=parts.netloc,
            scheme=parts.scheme,
            region="us-east-1",
            allow_bucket_creation=True,
        )
        system.create_dir(name)
        yield Place(f"s3://{name}/data", system, f"{name}/data")


def _environment(endpoint: str) -> dict[str, str]:
    return {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}
