"""What finds barriers on a page: axe-core, as `scripts/axe.sh` installs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.browser import Tab

__all__ = ["barriers"]

FILE = Path(__file__).parents[2] / ".engines" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
_ASK = """
axe.run(document, {resultTypes: ["violations"]}).then(({ violations }) => violations.map(
  (each) => `${each.id}: ${each.nodes.slice(0, 3).map((node) => node.html).join(" | ")}`))
"""


def barriers(tab: Tab) -> list[str]:
    """Return what keeps somebody from using the page that a tab shows, by rule."""
    if not FILE.exists():
        pytest.skip("there is no axe-core; `scripts/axe.sh .engines/axe` installs it")
    tab.run(FILE.read_text("utf-8") + "; typeof axe")
    found: list[str] = tab.run(_ASK)
    return found
