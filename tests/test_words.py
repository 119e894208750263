"""One word for one thing, as far as a machine can hold it: see docs/understanding/words.md.

The numbers and names below are what is left from earlier; they only ever shrink.
"""

import re
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "havasu_vc"
TEXTS = {
    path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(SOURCE.rglob("*.py"))
}

SHARED = frozenset(
    {"DeletionVector", "DiffPlan", "Entry", "FileColumns", "LiveFile", "Snapshot", "Table"}
)
"""Names that two classes still have."""


def shared_names(texts: dict[str, str]) -> set[str]:
    """Return the public names that several classes have; forms of JSON are called as in Python."""
    names = Counter(
        name
        for module, text in texts.items()
        if not module.startswith("cli/forms/")
        for name in re.findall(r"^class ([A-Za-z]\w*)", text, re.MULTILINE)
    )
    return {name for name, count in names.items() if count > 1}


def whats(texts: dict[str, str]) -> list[str]:
    """Return where a docstring, or a sentence below a field, opens with "What"."""
    return [
        f"{module}: {line}"
        for module, text in texts.items()
        for line in re.findall(r'^ *r?"""(What(?:ever)?\b.*)', text, re.MULTILINE)
    ]


def kernels(texts: dict[str, str]) -> list[str]:
    """Return which modules call a kernel what no task runs: functions of SQL have formulas."""
    return [
        module
        for module, text in texts.items()
        if module.startswith(("geo/", "model/compute", "spark/functions"))
        if re.search("kernel", text, re.I)
    ]


def test_a_class_has_its_name_alone() -> None:
    assert shared_names(TEXTS) <= SHARED


def test_docstrings_open_with_a_noun() -> None:
    """One that opens with "What" hides it."""
    assert whats(TEXTS) == []


def test_kernels_are_what_tasks_run() -> None:
    assert kernels(TEXTS) == []


def test_the_checks_can_fail() -> None:
    texts = {"a.py": 'class A:\n    """What."""', "geo/b.py": "class A:\n    kernel = 1"}

    assert shared_names(texts) == {"A"}
    assert whats(texts) == ['a.py: What."""']
    assert kernels(texts) == ["geo/b.py"]
