"""Which tests a process of a run takes: those of a file together, or of a group over many files.

So each fixture of a module, and each server that it starts, is made once. The scheduler that
comes with xdist hands out the tests of no group one by one, to whoever is next.
"""

from typing import Any

from xdist.scheduler import LoadGroupScheduling

LONG = ("@spark", "@browser", "tests/stateful/", "tests/datasets/havasu/test_machine.py")
"""What takes longest begins first, so that no process waits for the other in the end."""


class FileOrGroupScheduling(LoadGroupScheduling):  # type: ignore[misc]
    """Hand out whole groups, and whole files without the tests that are of a group."""

    def _split_scope(self, nodeid: str) -> str:
        # xdist writes the group of a test behind its name: `tests/x.py::test_y[1]@spark`.
        group: str = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if group == nodeid else f"@{group}"

    def _assign_work_unit(self, node: Any) -> None:
        first = next((scope for scope in self.workqueue if scope.startswith(LONG)), None)
        if first is not None:
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)
