"""Version control of layers in QGIS, by the command havasu-vc.

The plugin reads what the command prints as JSON and knows nothing else of a repository. Modules
that import nothing of QGIS (`answers`, `changes`, `commands`, `program`) hold what can be said
without it; `running` runs the command, `session` holds an open repository, and the others show it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["classFactory"]


def classFactory(iface: Any) -> Any:
    """Make the plugin; QGIS calls this."""
    from .plugin import Plugin

    return Plugin(iface)
