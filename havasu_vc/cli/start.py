"""The first thing that a process runs: Ctrl-C while modules load ends it as it ends git.

Loading takes a few hundredths of a second in which nothing is done yet. Python would answer
Ctrl-C there with a traceback of whatever it was importing; so the system's own answer stands
until `main` can tell of it in a line.
"""

import gc
import signal

# What loading modules makes stays to the end, so looking through it for garbage
# finds none: a tenth of `--version` went by with it.
gc.set_threshold(200_000)
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


# Python keeps the frames of calls in pieces of 16 kB, and where a loop deep inside (most of all
# while modules load modules) calls across the end of one, it is taken from the system and given
# back with each call: up to 900 times in a command. A frame of more than 64 kB has one piece of
# 128 kB made, whose other half all calls from here fit into; memory not touched costs nothing.
main.__code__ = main.__code__.replace(co_stacksize=8400)
