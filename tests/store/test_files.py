import errno
import hashlib
import os
import resource
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptDataFileError, DataFileNotFoundError, StorageError
from havasu_vc.store.files import DataFileStore
from tests.support.examples import examples


@pytest.fixture
def store(tmp_path: Path) -> DataFileStore:
    return DataFileStore(tmp_path / "havasu")


def put(store: DataFileStore, data: bytes) -> str:
    temporary = store.temporary()
    temporary.write_bytes(data)
    name, size = store.put(temporary)
    assert size == len(data) and not temporary.exists()
    return name


def everything(store: DataFileStore) -> list[Path]:
    return [path for path in store.root.rglob("*") if path.is_file()]


@examples(40)
@given(contents=st.lists(st.binary(max_size=20), max_size=8))
def test_what_is_put_is_there_once_under_its_hash(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]
) -> None:
    store = DataFileStore(tmp_path_factory.mktemp("store"))
    names = {put(store, data): data for data in contents}
    store.commit_all()

    assert list(store.iter()) == sorted({hashlib.sha256(d).hexdigest() for d in contents})
    for name, data in names.items():
        path = store.path(name)
        assert path == store.objects / name[:2] / name[2:4] / name
        assert path.read_bytes() == data and stat.S_IMODE(path.stat().st_mode) == 0o444
        assert store.has(name) and store.size(name) == len(data)
        store.check_size(name, len(data))
        store.verify(name)
    assert len(everything(store)) == len(names)


def test_git_lfs_would_find_it(store: DataFileStore) -> None:
    name = put(store, b"x")
    assert store.location(name) == store.root / "objects" / name[:2] / name[2:4] / name


def test_what_is_not_here_is_named(store: DataFileStore) -> None:
    name = "ab" * 32
    for ask in (store.path, store.size, store.verify):
        with pytest.raises(DataFileNotFoundError, match=name):
            ask(name)
    assert not store.has(name) and list(store.iter()) == [] and store.delete(name) == 0


@pytest.mark.parametrize(
    "name", ["", "../../../etc/passwd", "A" * 64, "ab" * 32 + "\n", "ab/" * 21]
)
def test_names_that_are_no_hash(store: DataFileStore, name: str) -> None:
    for ask in (store.path, store.has, store.size, store.verify, store.delete, store.location):
        with pytest.raises(CorruptDataFileError, match="not a sha256"):
            ask(name)


def test_damage_is_found(store: DataFileStore) -> None:
    name = put(store, b"content")
    path = store.path(name)
    path.chmod(0o644)
    path.write_bytes(b"c0ntent")
    store.check_size(name, 7)
    with pytest.raises(CorruptDataFileError, match="its bytes have the hash"):
        store.verify(name)
    path.write_bytes(b"conten")
    with pytest.raises(CorruptDataFileError, match="6 bytes instead of 7"):
        store.check_size(name, 7)

    assert put(store, b"content") == name  # a file of another size is replaced
    store.verify(name)


def test_a_hash_made_while_writing_is_taken(store: DataFileStore) -> None:
    temporary = store.temporary()
    temporary.write_bytes(b"content")
    name = hashlib.sha256(b"content").hexdigest()
    assert store.put(temporary, sha256=name) == (name, 7)
    temporary.write_bytes(b"content")
    with pytest.raises(ValueError, match="not a sha256"):
        store.put(temporary, sha256="../x")
    assert not temporary.exists()


def test_links_are_not_followed(store: DataFileStore, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    temporary = store.temporary()
    temporary.symlink_to(tmp_path / "secret")
    with pytest.raises(StorageError):
        store.put(temporary)
    name = hashlib.sha256(b"secret").hexdigest()
    place = store.location(name)
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "secret")
    for ask in (store.path, store.has, store.verify):
        with pytest.raises(CorruptDataFileError, match="not an ordinary file"):
            ask(name)
    assert (tmp_path / "secret").stat().st_mode & 0o200

    put(store, b"secret")
    assert not store.path(name).is_symlink()
    (tmp_path / "outside/cd").mkdir(parents=True)
    (tmp_path / "outside/cd" / ("abcd" + "0" * 60)).touch()
    (store.objects / "ab").symlink_to(tmp_path / "outside")
    assert list(store.iter()) == [name]


def test_gc_deletes_files_and_what_crashes_left(store: DataFileStore) -> None:
    name, kept = put(store, b"content"), put(store, b"kept")
    assert store.delete(name) == 7 and list(store.iter()) == [kept]
    assert not store.location(name).parent.exists()
    old, young = store.temporary(), store.temporary()
    for path, age in ((old, 25), (young, 23)):
        path.write_bytes(b"half")
        then = time.time() - age * 3600
        os.utime(path, (then, then))
    assert store.delete_stale() == 1
    assert young.exists() and not old.exists()
    assert DataFileStore(store.root / "none").delete_stale() == 0


def test_a_file_used_again_looks_young(store: DataFileStore) -> None:
    path = store.path(put(store, b"content"))
    os.utime(path, (0, 0))
    put(store, b"content")
    assert time.time() - path.stat().st_mtime < 60


def test_bytes_are_synced_before_the_name_and_folders_by_commit_all(
    store: DataFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def recording_fsync(number: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(number).st_mode) else "file"
        steps.append(f"sync {kind}")
        fsync(number)

    def recording_replace(source: Path, target: Path) -> None:
        steps.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(os, "replace", recording_replace)
    put(store, b"1")
    put(store, b"2")
    assert steps == ["sync file", "rename"] * 2
    store.commit_all()
    assert steps[4:] == ["sync folder"] * 5
    store.commit_all()
    assert len(steps) == 9


@pytest.mark.parametrize("step", ["fsync", "fchmod", "replace"])
def test_a_failing_disk_leaves_nothing(
    store: DataFileStore, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    kept = put(store, b"kept")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    temporary = store.temporary()
    temporary.write_bytes(b"content")
    monkeypatch.setattr(os, step, full)
    with pytest.raises(StorageError, match="the disk is full"):
        store.put(temporary)
    monkeypatch.undo()
    assert everything(store) == [store.path(kept)]


def test_a_failing_sync_of_a_folder_is_reported(
    store: DataFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, b"x")

    def failing(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(StorageError, match="Input/output error"):
        store.commit_all()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(store: DataFileStore) -> None:
    store.root.parent.chmod(0o555)
    with pytest.raises(StorageError, match="permission denied"):
        store.temporary()


def test_a_process_that_dies_while_putting_leaves_no_name(store: DataFileStore) -> None:
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from havasu_vc.store.files import DataFileStore\n"
        "store = DataFileStore(Path(sys.argv[1]))\n"
        "path = store.temporary(); path.write_bytes(b'x' * 100)\n"
        "os.replace = lambda *_: os._exit(9)\n"
        "store.put(path)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, store.root], check=False)
    assert done.returncode == 9
    assert list(store.iter()) == []
    assert store.delete_stale(age=-1) == 1 and everything(store) == []


def test_a_file_too_large_for_the_system_is_reported(tmp_path: Path) -> None:
    """Under a limit of the file size every write beyond it fails, as on a full disk."""
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from havasu_vc.errors import StorageError\n"
        "from havasu_vc.store.disk import replace_file\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    replace_file(Path(sys.argv[1]) / 'file', b'x' * 5000)\n"
        "except StorageError as error:\n"
        "    print(error)\n"
    )
    (tmp_path / "file").write_bytes(b"old")
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], check=True, capture_output=True, text=True
    )
    assert (
        done.stdout == f"{tmp_path / 'file'} cannot be written: the file is larger than "
        "the system allows\n"
    )
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000


def test_many_threads_put_the_same_files(store: DataFileStore) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for number in range(40):
                put(store, b"%d" % (number % 10))
            store.commit_all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(list(store.iter())) == 10 == len(everything(store))
