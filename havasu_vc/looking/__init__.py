"""Looking: what is there and what happened, without changing anything.

Log, show, diff, blame, status, and the rows of a dataset at any revision.
"""

from typing import TYPE_CHECKING

from havasu_vc.public import loads

if TYPE_CHECKING:
    from havasu_vc.looking.blaming import blame_dataset as blame_dataset
    from havasu_vc.looking.describing import Description as Description
    from havasu_vc.looking.describing import choose_rows as choose_rows
    from havasu_vc.looking.describing import count_rows as count_rows
    from havasu_vc.looking.describing import describe_dataset as describe_dataset
    from havasu_vc.looking.describing import extent_of as extent_of
    from havasu_vc.looking.git_diff import document_diff as document_diff
    from havasu_vc.looking.histories import commit_info as commit_info
    from havasu_vc.looking.histories import log as log
    from havasu_vc.looking.histories import tiles_changed as tiles_changed
    from havasu_vc.looking.notebook import commit_html as commit_html
    from havasu_vc.looking.notebook import commits_html as commits_html
    from havasu_vc.looking.notebook import table_html as table_html
    from havasu_vc.looking.other_files import file_changes as file_changes
    from havasu_vc.looking.overview import list_datasets as list_datasets
    from havasu_vc.looking.overview import status as status
    from havasu_vc.looking.pages import RowPage as RowPage
    from havasu_vc.looking.pages import read_page as read_page
    from havasu_vc.looking.placing import RowPlaces as RowPlaces
    from havasu_vc.looking.placing import row_places as row_places
    from havasu_vc.looking.reproject import OwnSystem as OwnSystem
    from havasu_vc.looking.reproject import into_own_system as into_own_system
    from havasu_vc.looking.reproject import reprojection as reprojection
    from havasu_vc.looking.requests import BlameRequest as BlameRequest
    from havasu_vc.looking.requests import DiffRequest as DiffRequest
    from havasu_vc.looking.requests import FileChangesRequest as FileChangesRequest
    from havasu_vc.looking.requests import LogRequest as LogRequest
    from havasu_vc.looking.requests import PageRequest as PageRequest
    from havasu_vc.looking.requests import RowsRequest as RowsRequest
    from havasu_vc.looking.requests import SeekRequest as SeekRequest
    from havasu_vc.looking.requests import ShowRequest as ShowRequest
    from havasu_vc.looking.returned_columns import lost_values as lost_values
    from havasu_vc.looking.rows import read_row as read_row
    from havasu_vc.looking.rows import read_rows as read_rows
    from havasu_vc.looking.seeking import FoundRows as FoundRows
    from havasu_vc.looking.seeking import seek as seek
    from havasu_vc.looking.showing import create_patch as create_patch
    from havasu_vc.looking.showing import diff as diff
    from havasu_vc.looking.showing import show as show
    from havasu_vc.looking.tables import Table as Table
    from havasu_vc.looking.tables import spread_batches as spread_batches

__getattr__ = loads(
    __name__,
    {
        "blaming": ["blame_dataset"],
        "overview": ["list_datasets", "status"],
        "describing": ["Description", "choose_rows", "count_rows", "describe_dataset", "extent_of"],
        "git_diff": ["document_diff"],
        "other_files": ["file_changes"],
        "histories": ["commit_info", "log", "tiles_changed"],
        "returned_columns": ["lost_values"],
        "showing": ["create_patch", "diff", "show"],
        "notebook": ["commit_html", "commits_html", "table_html"],
        "pages": ["RowPage", "read_page"],
        "placing": ["RowPlaces", "row_places"],
        "reproject": ["OwnSystem", "into_own_system", "reprojection"],
        "rows": ["read_row", "read_rows"],
        "seeking": ["FoundRows", "seek"],
        "tables": ["Table", "spread_batches"],
        "requests": [
            "BlameRequest",
            "DiffRequest",
            "FileChangesRequest",
            "LogRequest",
            "PageRequest",
            "RowsRequest",
            "SeekRequest",
            "ShowRequest",
        ],
    },
)
