"""Everything that is wrong with a dataset of lines."""

from collections.abc import Iterator

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.model.findings import Finding
from havasu_vc.model.task import RunsEach
from tests.third_kind.view import LinesDataset


def check_dataset(
    view: LinesDataset, engine: RunsEach, *, full: bool, checked: set[str] | None = None
) -> Iterator[Finding]:
    """Yield what is wrong; its rows are looked at with `full`."""
    try:
        view.check_guard()
        if full:
            _ = view.batch
    except CorruptDatasetError as error:
        yield Finding(error.path.removesuffix(f" at {view.revision}"), error.reason)
