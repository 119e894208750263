"""What the plugin remembers in the settings of QGIS."""

from __future__ import annotations

from qgis.core import QgsSettings

__all__ = ["Settings"]

PREFIX = "havasu_vc/"


class Settings:
    """The command's path, the repositories that were opened, and the last of them."""

    @property
    def program(self) -> str:
        """The path of the command; empty to search for it."""
        return str(QgsSettings().value(f"{PREFIX}program", "") or "")

    @program.setter
    def program(self, path: str) -> None:
        QgsSettings().setValue(f"{PREFIX}program", path)

    @property
    def repositories(self) -> list[str]:
        """The folders that were opened, in the order of their names."""
        found = QgsSettings().value(f"{PREFIX}repositories", []) or []
        return sorted([found] if isinstance(found, str) else found)

    @repositories.setter
    def repositories(self, folders: list[str]) -> None:
        QgsSettings().setValue(f"{PREFIX}repositories", sorted(set(folders)))

    @property
    def last(self) -> str:
        """The repository that was open last."""
        return str(QgsSettings().value(f"{PREFIX}last", "") or "")

    @last.setter
    def last(self, folder: str) -> None:
        QgsSettings().setValue(f"{PREFIX}last", folder)

    @property
    def most_changes(self) -> int:
        """How many changed rows are put on the map at most."""
        return int(QgsSettings().value(f"{PREFIX}most_changes", 100_000))
