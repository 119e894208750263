"""What stands at the top of a repository of Kart's, beside the datasets."""

from __future__ import annotations

__all__ = ["KART_VERSION", "KART_VERSION_3", "OLD_VERSION"]

KART_VERSION = ".kart.repostructure.version"
"""A file in the root of every commit: without it Kart takes the repository for its first form."""
KART_VERSION_3 = b"3\n"
"""What the file holds where tables are V3."""
OLD_VERSION = ".sno.repository.version"
"""The file of V2."""
