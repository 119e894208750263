"""Checking a Kart dataset: its documents, and with `full` every feature file by itself.

A feature that cannot be read is one finding; the others are checked all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from havasu_vc.datasets.kart.trees import Blobs, Files, Form, batches, leaves
from havasu_vc.datasets.kart.view import KartDataset
from havasu_vc.errors import CorruptionError, HavasuError
from havasu_vc.model.findings import Finding
from havasu_vc.model.task import RunsEach

__all__ = ["check_dataset"]


def check_dataset(
    view: KartDataset, engine: RunsEach, *, full: bool, checked: set[str] | None = None
) -> Iterator[Finding]:
    """Yield what is wrong with a dataset; its features are read here, whatever the engine."""
    try:
        form = view.form()
        for field in view.schema.geometries:
            crs = None if field.geometry is None else field.geometry.crs
            if crs is not None and crs not in view.crs:
                place = _place(view, view.where("meta/schema.json"))
                yield Finding(place, f"there is no definition of {crs}")
    except CorruptionError as error:
        yield Finding(*_said(error, view))
        return
    if not full or not view.features:
        return
    decoder = form.decoder()
    try:
        found = leaves(view.objects, [(b"", bytes.fromhex(view.features))])
        for files in batches(view.objects, found, form):
            try:
                files.rows(form, decoder)
            except HavasuError:
                yield from _one_by_one(view, files, form)
    except HavasuError as error:
        yield Finding(*_said(error, view))


def _one_by_one(view: KartDataset, files: Files, form: Form) -> Iterator[Finding]:
    """Yield what is wrong with each of some features."""
    blobs = files.blobs
    decoder = form.decoder()
    for index, (folder, name) in enumerate(zip(files.folders, files.names, strict=True)):
        one = Blobs(
            blobs.objects,
            blobs.ids[20 * index : 20 * index + 20],
            blobs.given[index : index + 1],
        )
        try:
            Files([folder], [name], one).rows(form, decoder)
        except HavasuError as error:
            yield Finding(*_said(error, view))


def _said(error: HavasuError, view: KartDataset) -> tuple[str, str]:
    path, reason = getattr(error, "path", None), getattr(error, "reason", None)
    if isinstance(path, str) and isinstance(reason, str):
        return _place(view, path), reason
    return view.path, error.message


def _place(view: KartDataset, where: str) -> str:
    """Return where something is, without the revision: whoever lists findings says that."""
    return where.removesuffix(f" at {view.revision}")
