import subprocess
import sys
import time
from pathlib import Path

import pytest

from havasu_vc.errors import LockedError
from havasu_vc.store.locks import exclusive_lock, shared_lock


def test_commits_share_and_gc_does_not(tmp_path: Path) -> None:
    path = tmp_path / "havasu/lock"
    with shared_lock(path), shared_lock(path):
        with pytest.raises(LockedError, match="committing"), exclusive_lock(path, patience=0.05):
            pass
    with exclusive_lock(path):
        for lock in (shared_lock, exclusive_lock):
            with pytest.raises(LockedError) as caught, lock(path, patience=0.05):
                pass
            assert caught.value.hints
    with exclusive_lock(path):
        pass


def test_an_error_inside_frees_the_lock(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), exclusive_lock(tmp_path / "lock"):
        raise RuntimeError
    with exclusive_lock(tmp_path / "lock", patience=0):
        pass


def test_a_process_that_dies_frees_the_lock_and_others_wait(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from havasu_vc.store.locks import exclusive_lock\n"
        "with exclusive_lock(Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(0.4)\n"
        "    os._exit(9)\n"
    )
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        start = time.monotonic()
        with shared_lock(path):
            assert time.monotonic() - start > 0.1
