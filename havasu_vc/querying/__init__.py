"""Querying: SQL over datasets at any revision, by DuckDB."""

from typing import TYPE_CHECKING

from havasu_vc.public import loads

if TYPE_CHECKING:
    from havasu_vc.querying.asking import Queries as Queries
    from havasu_vc.querying.asking import QueryAnswer as QueryAnswer
    from havasu_vc.querying.asking import sql as sql
    from havasu_vc.querying.statements import edited_by as edited_by
    from havasu_vc.querying.statements import split_statements as split_statements
    from havasu_vc.querying.statements import table_made_by as table_made_by
    from havasu_vc.querying.statements import written_by as written_by

__getattr__ = loads(
    __name__,
    {
        "asking": ["Queries", "QueryAnswer", "sql"],
        "statements": ["edited_by", "split_statements", "table_made_by", "written_by"],
    },
)
