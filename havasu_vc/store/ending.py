"""The last step of a work: once it has begun, Ctrl-C comes too late to stop anything.

What is put in its place then is complete, and whoever asked for it is to hear so: what is left
is to tidy up and to tell.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["last_step"]


@contextmanager
def last_step() -> Iterator[None]:
    """Pay no heed to Ctrl-C in what is done within, where it is the main thread that does it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    answer = signal.getsignal(signal.SIGINT)
    if answer is None:  # not set from Python, nor by Python to be set again
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, answer)
