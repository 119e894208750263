"""Sharing: commits by git, and the data files that they name beside them.

Clone, fetch, push, where the data of a remote is, and what a server takes in. The remotes
themselves, which know no repository, are in `remotes`.
"""

from typing import TYPE_CHECKING

from havasu_vc.public import loads

if TYPE_CHECKING:
    from havasu_vc.sharing.answers import refusal as refusal
    from havasu_vc.sharing.cloning import clone as clone
    from havasu_vc.sharing.cloning import finish_clone as finish_clone
    from havasu_vc.sharing.cloning import folder_of as folder_of
    from havasu_vc.sharing.data_files import DataStatus as DataStatus
    from havasu_vc.sharing.data_files import data_status as data_status
    from havasu_vc.sharing.data_files import drop_data as drop_data
    from havasu_vc.sharing.data_files import verify_data as verify_data
    from havasu_vc.sharing.data_places import commit_data_url as commit_data_url
    from havasu_vc.sharing.data_places import data_url as data_url
    from havasu_vc.sharing.data_places import known_data_url as known_data_url
    from havasu_vc.sharing.data_places import stated_data_url as stated_data_url
    from havasu_vc.sharing.data_remotes import data_place as data_place
    from havasu_vc.sharing.data_remotes import default_remote as default_remote
    from havasu_vc.sharing.data_remotes import download as download
    from havasu_vc.sharing.data_remotes import far_place as far_place
    from havasu_vc.sharing.data_remotes import local_folder as local_folder
    from havasu_vc.sharing.data_remotes import remote_address as remote_address
    from havasu_vc.sharing.data_remotes import remote_data as remote_data
    from havasu_vc.sharing.data_remotes import repository_at as repository_at
    from havasu_vc.sharing.data_remotes import usable_data_place as usable_data_place
    from havasu_vc.sharing.fetching import FetchResult as FetchResult
    from havasu_vc.sharing.fetching import fetch as fetch
    from havasu_vc.sharing.fetching import fetch_data as fetch_data
    from havasu_vc.sharing.fetching import kept_part as kept_part
    from havasu_vc.sharing.fetching import parse_box as parse_box
    from havasu_vc.sharing.fetching import remotes as remotes
    from havasu_vc.sharing.fetching import upstream_of as upstream_of
    from havasu_vc.sharing.pushing import PushResult as PushResult
    from havasu_vc.sharing.pushing import RemoteFetcher as RemoteFetcher
    from havasu_vc.sharing.pushing import push as push
    from havasu_vc.sharing.pushing import push_data as push_data
    from havasu_vc.sharing.receiving import check_received as check_received
    from havasu_vc.sharing.requests import CloneRequest as CloneRequest
    from havasu_vc.sharing.requests import DataRequest as DataRequest
    from havasu_vc.sharing.requests import DropRequest as DropRequest
    from havasu_vc.sharing.requests import FetchRequest as FetchRequest
    from havasu_vc.sharing.requests import Part as Part
    from havasu_vc.sharing.requests import PushRequest as PushRequest

__getattr__ = loads(
    __name__,
    {
        "answers": ["refusal"],
        "cloning": ["clone", "finish_clone", "folder_of"],
        "data_files": ["DataStatus", "data_status", "drop_data", "verify_data"],
        "data_places": ["commit_data_url", "data_url", "known_data_url", "stated_data_url"],
        "data_remotes": [
            "data_place",
            "default_remote",
            "download",
            "far_place",
            "local_folder",
            "remote_address",
            "remote_data",
            "repository_at",
            "usable_data_place",
        ],
        "fetching": [
            "FetchResult",
            "fetch",
            "fetch_data",
            "kept_part",
            "parse_box",
            "remotes",
            "upstream_of",
        ],
        "pushing": ["PushResult", "RemoteFetcher", "push", "push_data"],
        "receiving": ["check_received"],
        "requests": [
            "CloneRequest",
            "DataRequest",
            "DropRequest",
            "FetchRequest",
            "Part",
            "PushRequest",
        ],
    },
)
