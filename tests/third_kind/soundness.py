"""Whether a dataset of lines can be read: its columns can."""

from pathlib import Path

from havasu_vc.datasets.folder import Folder
from tests.third_kind.form import COLUMNS, parse_columns


def check_folder(folder: Folder, path: str, revision: str, marker: str, memory: Path) -> None:
    """Raise when a dataset cannot be read."""
    parse_columns(folder.read(COLUMNS), f"{path}/{marker}/{COLUMNS} at {revision}")
