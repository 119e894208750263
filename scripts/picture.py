"""Draw docs/pictures/diff.svg: what a release changed, as the terminal shows it.

The commands run, so the picture is what they print: `.venv/bin/python scripts/picture.py`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "diff.svg"
AUGUST = """\
id,name,lanes,lon,lat
1,Quay Street,4,174.77,-36.84
2,Queen Street,2,174.76,-36.85
3,Nelson Street,5,174.76,-36.85
"""
SEPTEMBER = """\
id,name,lanes,lon,lat
1,Quay Street,2,174.77,-36.84
3,Nelson Street,5,174.76,-36.85
4,Te Ara Tukutuku,1,174.75,-36.84
"""
BEFORE = (
    "init roads",
    "-C roads import august.csv streets --primary-key id --crs EPSG:4326 -m August",
    "-C roads import september.csv streets --replace --crs EPSG:4326 -m September",
)
SHOWN = ("log --oneline", "diff HEAD^...HEAD --stat", "diff HEAD^...HEAD")
THEME = TerminalTheme(
    (16, 32, 38),
    (226, 234, 236),
    [
        *((16, 32, 38), (255, 138, 117), (110, 214, 160), (255, 196, 110)),
        *((122, 190, 235), (214, 160, 235), (124, 214, 220), (226, 234, 236)),
    ],
)
# Rich's own would fetch a font.
FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"
 aria-label="What a terminal shows: a log, the numbers of changed rows, and the changed cells">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas,
 "DejaVu Sans Mono", monospace; font-size: {char_height}px; line-height: {line_height}px;
 font-variant-east-asian: full-width }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
<rect width="{width}" height="{height}" rx="10" fill="#102026"/>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">
{matrix}
</g></g>
</svg>
"""


def havasu_vc(folder: Path, arguments: str) -> str:
    """Run a command as on a terminal with colours, and return what it prints."""
    program = "import sys; sys.stdout.isatty = lambda: True; "
    program += "from havasu_vc.cli.main import main; main()"
    environment = os.environ | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_DATE": "2026-09-01T12:00:00Z",
        "GIT_COMMITTER_DATE": "2026-09-01T12:00:00Z",
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm-256color",
        "COLUMNS": "76",
    }
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": "Ann", f"GIT_{role}_EMAIL": "ann@example.com"}
    done = subprocess.run(
        [sys.executable, "-c", program, "--no-pager", *arguments.split()],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def draw() -> str:
    """Return the picture."""
    console = Console(record=True, width=62, file=open(os.devnull, "w", encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "august.csv").write_text(AUGUST, encoding="utf-8")
        (folder / "september.csv").write_text(SEPTEMBER, encoding="utf-8")
        for arguments in BEFORE:
            havasu_vc(folder, arguments)
        for arguments in SHOWN:
            console.print(Text(f"$ havasu-vc {arguments}", style="bold"))
            console.print(Text.from_ansi(havasu_vc(folder / "roads", arguments).rstrip()))
            console.print()
    return console.export_svg(title="", theme=THEME, code_format=FORMAT, unique_id="diff")


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    text = draw()
    PICTURE.write_text("".join(line.rstrip() + "\n" for line in text.splitlines()), "utf-8")
