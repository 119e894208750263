"""Kart's Table Datasets V3: schema, legends, paths and features, parsed and formatted.

    <path>/.table-dataset/meta/          title, description, schema.json, crs/<id>.wkt,
                                         legend/<hash>, path-structure.json, and others
    <path>/.table-dataset/feature/A/A/A/B/kU0=     one message per row

What is written is what Kart writes, byte for byte; what is read may also be what the
published page says where Kart differs from it.
"""

from __future__ import annotations

__all__ = [
    "KART_VERSION",
    "KART_VERSION_3",
    "OLD_VERSION",
]


# What stands at the top of a repository of Kart's, beside the datasets.

KART_VERSION = ".kart.repostructure.version"
"""A file in the root of every commit: without it Kart takes the repository for its first form."""
KART_VERSION_3 = b"3\n"
"""What the file holds where tables are V3."""
OLD_VERSION = ".sno.repository.version"
"""The file of V2."""
