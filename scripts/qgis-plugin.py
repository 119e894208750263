"""Pack the QGIS plugin as QGIS installs it: scripts/qgis-plugin.py [FOLDER].

The zip, in dist/ unless told, has one folder, which is the plugin's name in QGIS. It is not called
as the library is, so that Python in QGIS can have both. The same files make the same bytes.
"""

import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "qgis" / "havasu_vc"
NAME = "havasu_vc_qgis"
KINDS = {".py", ".txt", ".svg", ".qm"}
LONG_AGO = (1980, 1, 1, 0, 0, 0)


def version() -> str:
    """Return the version that the plugin tells of itself."""
    lines = (SOURCE / "metadata.txt").read_text("utf-8").splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("version="))


def pack(folder: Path) -> Path:
    """Write the zip into a folder and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{NAME}-{version()}.zip"
    files = sorted(path for path in SOURCE.rglob("*") if path.suffix in KINDS and path.is_file())
    named = [(path.relative_to(SOURCE).as_posix(), path) for path in files]
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, path in [*named, ("LICENSE", ROOT / "LICENSE")]:
            entry = zipfile.ZipInfo(f"{NAME}/{name}", LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            packed.writestr(entry, path.read_bytes())
    return made


if __name__ == "__main__":
    print(pack(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "dist"))
