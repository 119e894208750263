"""Fuzzing by hand, longer than tests can.

    python -m tests.fuzz                           names the decoders
    python -m tests.fuzz NAME... --seconds 60      Atheris, led by what code the bytes reach
    python -m tests.fuzz --all --seconds 600       the same for all in one process
    python -m tests.fuzz NAME... --bombs           the fixed hostile inputs, in little memory

Atheris is installed with `pip install atheris`; it needs no other preparation. What it
finds is printed, and kept in the file that it names.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

INSTRUMENTED = [
    "havasu_vc.formats",
    "havasu_vc.geo",
    "havasu_vc.exchange",
    "havasu_vc.review.policy",
]
"""What Atheris watches: the more it is, the longer it takes to begin."""
ROOM = 400 << 20
"""Address space for bombs beside what the decoders themselves take."""


def main(arguments: list[str] | None = None) -> int:
    """Fuzz the decoders that are named."""
    options = _parser().parse_args(arguments)
    if options.child is not None:
        _with_atheris(options.names, options.child)
        return 0
    from tests.fuzz.decoders import DECODERS

    unknown = [name for name in options.names if name not in DECODERS]
    if unknown:
        print(f"there is no decoder {unknown[0]!r}", file=sys.stderr)
        return 2
    if options.bombs:
        return _with_bombs(options.names or list(DECODERS))
    if not options.names and not options.all:
        print("\n".join(DECODERS))
        return 0
    # Whatever is fuzzed in one process is instrumented once, which takes a minute.
    chosen = options.names or list(DECODERS)
    failed = [] if _run_child(chosen, options.seconds) == 0 else chosen
    print(f"failed: {', '.join(failed)}" if failed else "all hold")
    return int(bool(failed))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true", help="every decoder")
    parser.add_argument("--seconds", type=int, default=30, help="for all together")
    parser.add_argument("--bombs", action="store_true", help="the fixed hostile inputs alone")
    parser.add_argument("--child", metavar="FOLDER", help=argparse.SUPPRESS)
    return parser


def _with_bombs(names: list[str]) -> int:
    from tests.fuzz.contract import bombs, hold
    from tests.fuzz.decoders import DECODERS

    for name in names:
        for seed in DECODERS[name].seeds:
            hold(DECODERS[name], seed)  # whatever is loaded late is loaded now
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    failed = False
    for name in names:
        sound = True
        for data in bombs(DECODERS[name]):
            try:
                hold(DECODERS[name], data)
            except Exception as error:
                if sound:
                    traceback.print_exc(limit=-6)
                    shown = f"{data[:80]!r} ({len(data)} bytes)"
                    print(f"{name}: {type(error).__name__}: {shown}", file=sys.stderr)
                sound = False
        failed = failed or not sound
        print(name)
    return int(failed)


def _run_child(names: list[str], seconds: int) -> int:
    from tests.fuzz.decoders import DECODERS

    with tempfile.TemporaryDirectory() as folder:
        for index, name in enumerate(names):
            for number, seed in enumerate(DECODERS[name].seeds):
                Path(folder, f"{index}-{number}").write_bytes(bytes([index]) + seed)
        command = [sys.executable, "-m", "tests.fuzz", *names, "--child", folder]
        environment = {**os.environ, "HAVASU_FUZZ_SECONDS": str(seconds)}
        done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    lines = done.stderr.splitlines()
    print(f"{lines[-1] if lines else ''}")
    if done.returncode:
        print("\n".join(lines[-60:]))
    return done.returncode


def _with_atheris(names: list[str], folder: str) -> None:
    import atheris  # type: ignore[import-untyped, import-not-found, unused-ignore]

    with atheris.instrument_imports(include=INSTRUMENTED):
        from tests.fuzz.contract import hold
        from tests.fuzz.decoders import DECODERS
    decoders = [DECODERS[name] for name in names]

    def one(data: bytes) -> None:
        # The first byte chooses the decoder.
        if data:
            hold(decoders[data[0] % len(decoders)], data[1:])

    seconds = os.environ.get("HAVASU_FUZZ_SECONDS", "30")
    artifacts = tempfile.mkdtemp(prefix="havasu-fuzz-")
    how = [
        f"-artifact_prefix={artifacts}/",
        f"-max_total_time={seconds}",
        "-max_len=4096",
        "-rss_limit_mb=3000",
        "-timeout=20",
    ]
    atheris.Setup([sys.argv[0], *how, folder], one)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
