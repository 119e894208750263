"""The example notebook of the docs runs from its first cell to its last; its values show."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "guides" / "notebook.ipynb"


def run(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as Jupyter does; return the value of the expression that it ends in."""
    *before, last = ast.parse(source).body
    assert isinstance(last, ast.Expr)
    exec(compile(ast.Module(before, []), str(NOTEBOOK), "exec"), names)
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_the_example_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    document = json.loads(NOTEBOOK.read_text("utf-8"))
    sources = ["".join(c["source"]) for c in document["cells"] if c["cell_type"] == "code"]

    names: dict[str, Any] = {"__name__": "__main__"}
    values = [run(source, names) for source in sources]

    repo, now, before, diff, rows, review, log = values
    assert "survey" in repo._repr_html_()
    assert "nīkau" in now._repr_html_()
    assert "kauri" in before._repr_html_()
    assert "totara → tōtara" in diff._repr_html_()
    assert "data:image/svg+xml" in diff._repr_html_()
    assert sorted(kind for _, kind, _ in rows) == ["delete", "insert", "update", "update"]
    assert "main...survey" in review._repr_html_()
    assert "New survey" in log._repr_html_()
