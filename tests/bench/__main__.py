"""`python -m tests.bench`: run the cases and print a table of what they measured."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.bench.cases import Case, Figure, all_cases
from tests.bench.process import ROOT, CommandFailed
from tests.bench.scratch import QUICK, Scratch, Sizes

WIDTH = 76


def main(arguments: list[str] | None = None) -> int:
    """Run the cases asked for."""
    options = _parser().parse_args(arguments)
    chosen = _chosen(options.only)
    if options.list:
        print("\n".join(each.name for each in chosen))
        return 0
    scratch = Scratch(options.scratch.absolute(), QUICK if options.quick else Sizes())
    begin = time.monotonic()
    figures = _measured(chosen, scratch)
    missed = [each for each in figures if each.verdict == "MISS"]
    took = time.monotonic() - begin
    print(f"\n{len(figures)} figures, {len(missed)} missed, in {took:.0f} s on {_machine()}")
    if options.json is not None:
        rows = [{**asdict(each), "verdict": each.verdict} for each in figures]
        document = {"machine": _machine(), "quick": options.quick, "figures": rows}
        options.json.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return int(options.strict and bool(missed))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller tables, fewer runs")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="run this case; may be repeated"
    )
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a figure is missed")
    parser.add_argument(
        "--scratch", type=Path, default=ROOT / ".bench", help="where tables are kept"
    )
    return parser


def _chosen(names: list[str]) -> list[Case]:
    cases = all_cases()
    unknown = set(names) - {each.name for each in cases}
    if unknown:
        sys.exit(f"there is no case {min(unknown)!r}; --list names them")
    return [each for each in cases if not names or each.name in names]


def _measured(chosen: list[Case], scratch: Scratch) -> list[Figure]:
    print(f"{'':{WIDTH}} {'measured':>12} {'asked':>9}")
    figures = []
    for each in chosen:
        begin = time.monotonic()
        try:
            for figure in each.measure(scratch):
                figures.append(figure)
                print(format_figure(figure), flush=True)
        except CommandFailed as error:
            # One case that cannot be measured does not hide the others.
            figures.append(Figure(each.name, None, "", note=str(error)))
            print(format_figure(figures[-1]), flush=True)
        took = time.monotonic() - begin
        print(f"  [{each.name}: {took:.0f} s]", file=sys.stderr, flush=True)
    return figures


def format_figure(figure: Figure) -> str:
    """Return a figure as a line of the table, its note below."""
    value = "" if figure.value is None else f"{_number(figure.value)} {figure.unit}"
    asked = "" if figure.at_most is None else f"≤ {figure.at_most:g}"
    line = f"{figure.name:{WIDTH}} {value:>12} {asked:>9}  {figure.verdict}"
    return line + (f"\n    {figure.note}" if figure.note else "")


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main())
