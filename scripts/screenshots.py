"""Take the pictures of the guides anew: the page of a review, and the repository in a browser.

    .venv/bin/python scripts/screenshots.py             # those of docs/guides
    .venv/bin/python scripts/screenshots.py --to FOLDER  # these and more, to be looked at

A city is made, changed on a branch and reviewed by the commands that a reader would type; then
Chromium shows the pages, as the tests see them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import rasterio
import shapely

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.browser import Browser, Tab, find_chromium  # noqa: E402

GUIDES = ROOT / "docs" / "guides"
WIDE, PHONE = (1400, 900), (390, 844)
STREETS = ("Aro", "Cuba", "Dixon", "Ghuznee", "Tory", "Vivian", "Willis")
SPECIES = ("kauri", "kōwhai", "pōhutukawa", "rimu", "tōtara")
PROGRAM = "from havasu_vc.cli.main import main; main()"
PICTURES = (
    "review-page.png",
    "review-page-phone.png",
    "browser-overview.png",
    "browser-data.png",
    "browser-work.png",
    "browser-conflicts.png",
    "browser-overview-phone.png",
    "browser-data-phone.png",
)
"""The pictures that the guides show."""


class City:
    """A city's parcels, trees and orthophotos as files, of which a survey changes some."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._chance = np.random.default_rng(4)
        corners = np.stack(np.meshgrid(np.arange(25.0), np.arange(17.0)), axis=-1)
        self._corners = corners + self._chance.uniform(-0.16, 0.16, corners.shape)
        names = [f"{3 + 2 * i} {STREETS[i % len(STREETS)]} Street" for i in range(24 * 16)]
        self._owners = dict(enumerate(names))
        self._zones = {i: "Residential 1" if i % 24 < 17 else "Commercial" for i in self._owners}
        self._gone: set[int] = {9 * 24 + 12}
        places = self._chance.random((3000, 2)) * (24, 16)
        self._trees = [
            {
                "id": i + 1,
                "species": SPECIES[int(self._chance.integers(len(SPECIES)))],
                "height": float(self._chance.integers(20, 280)) / 10,
                "place": tuple(place),
            }
            for i, place in enumerate(places)
        ]
        self._roof = 120

    def survey(self) -> None:
        """Survey a block anew."""
        for row, column in ((8, 11), (9, 12), (10, 12), (8, 13)):
            self._corners[row, column] += self._chance.uniform(-0.35, 0.35, 2)
        self._gone = {7 * 24 + 15, 11 * 24 + 10}

    def rezone(self) -> None:
        """Rezone a street, and let one parcel change hands."""
        for column in range(9, 16):
            self._zones[8 * 24 + column] = "Residential 2"
        self._owners[10 * 24 + 13] = "Te Aro Community Trust"

    def measure(self) -> None:
        """Measure trees anew, with a slip or two; fell some, and plant others."""
        for tree in self._trees[200:260]:
            tree["height"] = round(tree["height"] + 0.4, 1)
        self._trees[204]["height"] = 412.0
        self._trees[230]["species"] = None
        x, y = self._trees[215]["place"]
        self._trees[215]["place"] = (x + 9, y - 4)
        del self._trees[1200:1204]
        for i in range(6):
            place = (10.5 + i / 2, 9.2 + i / 5)
            self._trees.append({"id": 3001 + i, "species": "rātā", "height": 1.5, "place": place})

    def fly(self) -> None:
        """Fly again, over a new roof."""
        self._roof = 220

    def write(self) -> None:
        """Write the files as the city is now."""
        kept = [i for i in self._owners if i not in self._gone]
        ring = ((0, 0), (0, 1), (1, 1), (1, 0))
        shapes = [
            shapely.Polygon([_place(*self._corners[i // 24 + y, i % 24 + x]) for y, x in ring])
            for i in kept
        ]
        self._table(
            "parcels",
            shapes,
            id=[1000 + i for i in kept],
            address=[self._owners[i] for i in kept],
            zone=[self._zones[i] for i in kept],
            area_m2=[round(each.area * 111_320**2 * 0.75, 1) for each in shapes],
        )
        trees = self._trees
        self._table(
            "trees",
            [shapely.Point(_place(*tree["place"])) for tree in trees],
            id=[tree["id"] for tree in trees],
            species=[tree["species"] for tree in trees],
            height=[tree["height"] for tree in trees],
        )
        self._sheets()

    def _table(self, name: str, shapes: list[Any], **columns: list[Any]) -> None:
        geo = {
            "version": "1.1.0",
            "primary_column": "geom",
            "columns": {"geom": {"encoding": "WKB", "geometry_types": []}},
        }
        table = pa.table({**columns, "geom": shapely.to_wkb(shapes)})
        table = table.replace_schema_metadata({"geo": json.dumps(geo)})
        pq.write_table(table, self._folder / f"{name}.parquet")

    def _sheets(self) -> None:
        folder = self._folder / "orthos"
        folder.mkdir(exist_ok=True)
        chance = np.random.default_rng(7)
        for number in range(2):
            pixels = chance.integers(70, 100, (3, 300, 400)).astype(np.uint8)
            pixels[1] += 30
            pixels[:, 140:156, :] = 130
            pixels[:, :, 180:192] = 125
            if number:
                pixels[0, 60:110, 60:130] = self._roof
            west, north = _place(9 + 3 * number, 10)
            cell = rasterio.Affine(0.0006 / 100, 0, west, 0, -0.0006 / 100, north)
            options = {"driver": "GTiff", "count": 3, "dtype": "uint8", "crs": "EPSG:4326"}
            path = folder / f"sheet_{number}.tif"
            with rasterio.open(path, "w", width=400, height=300, transform=cell, **options) as file:
                file.write(pixels)


def _place(x: float, y: float) -> tuple[float, float]:
    return 174.765 + x * 0.0006, -41.297 + y * 0.00045


class Repository:
    """A repository of the city, worked on by commands."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "wellington"
        self._folder = folder
        self.day, self.author = 1, "Ana Pohatu"
        self.city = City(folder)
        self("init", str(self.path), cwd=folder)

    def __call__(self, *arguments: str, cwd: Path | None = None) -> None:
        """Run a command."""
        program = [sys.executable, "-c", PROGRAM, *arguments]
        subprocess.run(
            program,
            cwd=cwd or self.path,
            env=self.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )

    def environment(self) -> dict[str, str]:
        """Return the environment of a command: a person, a day and no configuration."""
        mail = f"{self.author.split()[0].lower()}@wellington.example"
        found = {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_DATE": f"2026-09-{self.day:02}T09:30:00+12:00",
            "GIT_COMMITTER_DATE": f"2026-09-{self.day:02}T09:30:00+12:00",
            "PYTHONPATH": str(ROOT),
        }
        for role in ("AUTHOR", "COMMITTER"):
            found |= {f"GIT_{role}_NAME": self.author, f"GIT_{role}_EMAIL": mail}
        return os.environ | found

    def take(self, name: str, message: str, *more: str) -> None:
        """Commit a dataset as the city is now."""
        self.day += 1
        self.city.write()
        source = self._folder / ("orthos" if name == "orthos" else f"{name}.parquet")
        key = () if name == "orthos" else ("--primary-key", "id")
        self("import", str(source), name, *key, *more, "-m", message)

    def grow(self) -> None:
        """Make the main branch, and two others of which one is a survey."""
        self.take("parcels", "Parcels as of August")
        self.take("trees", "Trees of the city")
        self.take("orthos", "Flight of 2025")
        self("meta", "set", "parcels", "title=Land parcels", "-m", "A title")
        self("switch", "-c", "survey-2026")
        self.author = "Wiremu Hale"
        steps: tuple[tuple[Callable[[], None], str, str], ...] = (
            (self.city.survey, "parcels", "Survey the block at Cuba Street anew"),
            (self.city.rezone, "parcels", "Rezone Dixon Street by plan change 83"),
            (self.city.measure, "trees", "Trees as measured in spring"),
            (self.city.fly, "orthos", "Flight of 2026"),
        )
        for change, name, message in steps:
            change()
            self.take(name, message, "--replace")
        self("switch", "main")

    def rows(self, code: str) -> None:
        """Run a program that holds the repository as `repo`."""
        program = f"import pyarrow as pa\nfrom havasu_vc import Repo\nrepo = Repo.open('.')\n{code}"
        how = {"cwd": self.path, "env": self.environment()}
        subprocess.run([sys.executable, "-c", program], check=True, **how)  # type: ignore[call-overload]


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium, as long as it is needed."""
    program = find_chromium()
    if program is None:
        raise SystemExit("this needs Chromium or Chrome; CHROMIUM may name it")
    found = Browser(program)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def served(repository: Repository) -> Iterator[str]:
    """Serve the repository by `havasu-vc open`, as long as it is needed."""
    command = [sys.executable, "-c", PROGRAM, "open", "--no-browser"]
    how = {"cwd": repository.path, "env": repository.environment(), "text": True}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, **how)  # type: ignore[call-overload]
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


class Camera:
    """A tab, and a folder for what it shows."""

    def __init__(self, tab: Tab, folder: Path, *, more: bool) -> None:
        self.tab, self._folder = tab, folder
        self._more = more
        """Whether pictures are taken that no guide shows."""

    def show(self, address: str, size: tuple[int, int] = WIDE, *, dark: bool = False) -> None:
        """Open a page at a size."""
        self.tab.call("Page.navigate", url="about:blank")
        self.tab.resize(*size)
        self.tab.prefers(color_scheme="dark" if dark else "light", reduced_motion="reduce")
        self.tab.go(address)

    def take(self, name: str) -> None:
        """Keep what the tab shows."""
        if name not in PICTURES and not self._more:
            return
        self.tab.run("new Promise((done) => setTimeout(done, 600))")
        self.tab.wait("!document.querySelector('[data-busy=true]')")
        self.tab.screenshot(self._folder / name)
        print(self._folder / name)


def photograph_review(camera: Camera, page: Path) -> None:
    """Take the page of a review as it opens, at a row, and elsewhere."""
    address = page.as_uri()
    camera.show(address)
    camera.take("review-first.png")
    camera.show(f"{address}#parcels:1203")
    camera.tab.run("document.getElementById('explorer').scrollIntoView()")
    camera.take("review-page.png")
    camera.show(f"{address}#parcels:1203", dark=True)
    camera.take("review-dark.png")
    camera.tab.run("document.getElementById('datasets').scrollIntoView()")
    camera.take("review-datasets.png")
    camera.show(f"{address}#orthos:sheet_1.tif")
    camera.take("review-raster.png")
    camera.show(address, PHONE)
    camera.take("review-page-phone.png")
    camera.show(f"{address}#parcels:1203", PHONE, dark=True)
    camera.take("review-phone-row.png")


def photograph_face(camera: Camera, repository: Repository) -> None:
    """Take the views of `havasu-vc open`."""
    with served(repository) as address:
        camera.show(address)
        place = address.partition("/?")[0]
        camera.take("browser-overview.png")
        camera.show(f"{place}/#/history")
        camera.take("browser-history.png")
        camera.show(f"{place}/#/data?dataset=parcels&row=1203")
        camera.tab.wait("document.querySelector('.past h2')")
        camera.take("browser-data.png")
        camera.show(f"{place}/#/data?dataset=parcels&against=survey-2026&row=1203")
        camera.take("browser-compare.png")
        camera.show(f"{place}/#/work")
        camera.take("browser-work.png")
        camera.show(f"{place}/#/overview", PHONE)
        camera.take("browser-overview-phone.png")
        camera.show(f"{place}/#/data?dataset=parcels&row=1203", PHONE)
        camera.tab.wait("document.querySelector('.past h2')")
        camera.take("browser-data-phone.png")
        camera.show(f"{place}/#/work", PHONE, dark=True)
        camera.take("browser-work-phone.png")


def photograph_conflicts(camera: Camera, repository: Repository) -> None:
    """Take the view in which a merge is settled."""
    with served(repository) as address:
        camera.show(address)
        camera.show(f"{address.partition('/?')[0]}/#/conflicts")
        camera.tab.wait("document.querySelector('main table')")
        camera.take("browser-conflicts.png")
        camera.show(f"{address.partition('/?')[0]}/#/conflicts", PHONE)
        camera.take("browser-conflicts-phone.png")


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--to", type=Path, default=GUIDES, help="another folder, for all of them")
    to: Path = parser.parse_args().to
    with tempfile.TemporaryDirectory() as scratch, browser() as chromium:
        repository = Repository(Path(scratch))
        repository.grow()
        camera = Camera(chromium.open(), to, more=to != GUIDES)
        page = Path(scratch) / "review.html"
        repository("review", "main...survey-2026", "-o", "html", "--output", str(page))
        if to != GUIDES:
            (to / "review.html").write_bytes(page.read_bytes())
        photograph_review(camera, page)
        repository("create-workingcopy")
        repository.day += 1
        edit(repository)
        photograph_face(camera, repository)
        repository("stash")
        disagree(repository)
        photograph_conflicts(camera, repository)


def edit(repository: Repository) -> None:
    """Edit the working copy, as a program would that draws maps."""
    import sqlite3

    with sqlite3.connect(repository.path / "wellington.gpkg") as file:
        for name in ("IsEmpty", "MinX", "MaxX", "MinY", "MaxY"):
            file.create_function(f"ST_{name}", 1, lambda shape: None)
        file.execute("UPDATE parcels SET zone = 'Open space' WHERE id IN (1010, 1011)")
        file.execute("UPDATE parcels SET address = '12a Cuba Street' WHERE id = 1040")
        file.execute("UPDATE trees SET height = 12.5 WHERE id = 77")


def disagree(repository: Repository) -> None:
    """Merge the survey into a branch on which some of the same cells were changed."""
    repository.rows(
        "repo.write('trees', pa.table({'id': [202, 203, 205], 'height': [9.0, 11.5, 14.0]}),"
        " message='Heights by laser')\n"
        "repo.write('parcels', pa.table({'id': [1203, 1204], 'zone': ['Commercial'] * 2}),"
        " message='Two parcels are shops')"
    )
    repository("merge", "survey-2026")


if __name__ == "__main__":
    main()
