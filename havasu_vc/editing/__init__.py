"""Editing: commits that change what datasets hold, made by a program.

Rows that are written, patches, meta items, declared geometries, datasets that move or go, what is
brought back, and commits that are made anew.
"""

from typing import TYPE_CHECKING

from havasu_vc.public import loads

if TYPE_CHECKING:
    from havasu_vc.editing.amendments import amend as amend
    from havasu_vc.editing.amendments import amending as amending
    from havasu_vc.editing.geometry_encodings import declare_geometries as declare_geometries
    from havasu_vc.editing.metadata import get_meta as get_meta
    from havasu_vc.editing.metadata import set_meta as set_meta
    from havasu_vc.editing.moving import move_dataset as move_dataset
    from havasu_vc.editing.moving import remove_datasets as remove_datasets
    from havasu_vc.editing.patches import apply_patch as apply_patch
    from havasu_vc.editing.patches import commit_files as commit_files
    from havasu_vc.editing.requests import PatchRequest as PatchRequest
    from havasu_vc.editing.requests import RestoreRequest as RestoreRequest
    from havasu_vc.editing.restoring import restore as restore
    from havasu_vc.editing.writing import MODES as MODES
    from havasu_vc.editing.writing import whole_rows as whole_rows
    from havasu_vc.editing.writing import write_rows as write_rows

__getattr__ = loads(
    __name__,
    {
        "amendments": ["amend", "amending"],
        "geometry_encodings": ["declare_geometries"],
        "metadata": ["get_meta", "set_meta"],
        "moving": ["move_dataset", "remove_datasets"],
        "patches": ["apply_patch", "commit_files"],
        "restoring": ["restore"],
        "writing": ["MODES", "whole_rows", "write_rows"],
        "requests": ["PatchRequest", "RestoreRequest"],
    },
)
