"""The state that a process starts in, made such that a command can rely on it.

Two things differ from machine to machine, and no command should have to ask:

- **Streams that are closed**, as by `>&-` or by a service that starts programs without any.
  The next file that is opened would take the place of stdout, and what is printed would be
  written into it. As git does, we open `/dev/null` in each such place.
- **Text that is not UTF-8**, in a locale of another encoding or because of
  `PYTHONIOENCODING`. Names of datasets and rows are any text, so what we read and print is
  UTF-8 everywhere, as with git.

Memory that is given back as soon as it is free, for commands that read much and keep little.

Arrow's allocator keeps what was freed for a while in case it is needed again. A review
that reads millions of rows and keeps a few holds a fifth less without that, at no cost in
time that could be measured.
"""

from __future__ import annotations

import codecs
import io
import os
import sys

__all__ = ["give_back_memory", "prepare_process"]


def prepare_process() -> None:
    """Make the streams of this process whole, and its text UTF-8; may start it anew."""
    _open_closed_streams()
    _take_utf8()


def _open_closed_streams() -> None:
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is the one that is missing.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def _take_utf8() -> None:
    if not _is_utf8(sys.getfilesystemencoding()) and not sys.flags.utf8_mode and sys.executable:
        # Arguments and names of files are decoded before any of our code runs.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not _is_utf8(stream.encoding):
            stream.reconfigure(encoding="utf-8", errors=stream.errors)


def _is_utf8(encoding: str) -> bool:
    return codecs.lookup(encoding).name == "utf-8"


def give_back_memory() -> None:
    """Have free memory given back at once; only before Arrow is loaded does it take effect."""
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "0")
