"""The first thing that a process runs: Ctrl-C while modules load ends it as it ends git.

Loading takes a few hundredths of a second in which nothing is done yet. Python would answer
Ctrl-C there with a traceback of whatever it was importing; so the system's own answer stands
until `main` can tell of it in a line.
"""

import signal

_answers = signal.getsignal(signal.SIGINT) is signal.default_int_handler
# Where it is ignored for us, as shells do for jobs in the background, it stays so.
if _answers:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from typing import NoReturn  # noqa: E402

from havasu_vc.cli import main as command_line  # noqa: E402

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line of this process, from its first moment."""
    if _answers:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command_line.main()
