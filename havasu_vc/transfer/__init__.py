"""Transfer: tables of other formats come in and go out, as rows, copies or histories."""

from typing import TYPE_CHECKING

from havasu_vc.public import loads

if TYPE_CHECKING:
    from havasu_vc.transfer.converting import convert as convert
    from havasu_vc.transfer.copies import add_datasets as add_datasets
    from havasu_vc.transfer.copies import checkout_as as checkout_as
    from havasu_vc.transfer.copies import commit_from as commit_from
    from havasu_vc.transfer.copies import diff_copy as diff_copy
    from havasu_vc.transfer.exports import export as export
    from havasu_vc.transfer.exports import export_changes as export_changes
    from havasu_vc.transfer.import_histories import import_source as import_source
    from havasu_vc.transfer.imports import kind_of_new as kind_of_new
    from havasu_vc.transfer.imports import replacement as replacement
    from havasu_vc.transfer.rasters import Rasters as Rasters
    from havasu_vc.transfer.rekeying import in_columns as in_columns
    from havasu_vc.transfer.rekeying import rekeyed as rekeyed
    from havasu_vc.transfer.requests import ConvertRequest as ConvertRequest
    from havasu_vc.transfer.requests import CopyCommitRequest as CopyCommitRequest
    from havasu_vc.transfer.requests import CopyRequest as CopyRequest
    from havasu_vc.transfer.requests import ExportRequest as ExportRequest
    from havasu_vc.transfer.requests import ImportRequest as ImportRequest
    from havasu_vc.transfer.understanding import TableInfo as TableInfo
    from havasu_vc.transfer.understanding import parse_table_info as parse_table_info

__getattr__ = loads(
    __name__,
    {
        "converting": ["convert"],
        "copies": ["add_datasets", "checkout_as", "commit_from", "diff_copy"],
        "exports": ["export", "export_changes"],
        "import_histories": ["import_source"],
        "imports": ["kind_of_new", "replacement"],
        "rasters": ["Rasters"],
        "rekeying": ["in_columns", "rekeyed"],
        "understanding": ["TableInfo", "parse_table_info"],
        "requests": [
            "ConvertRequest",
            "CopyCommitRequest",
            "CopyRequest",
            "ExportRequest",
            "ImportRequest",
        ],
    },
)
