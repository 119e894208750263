"""Review: what a person who decides on a change needs to see, and the policy it is held to."""

from typing import TYPE_CHECKING

from havasu_vc.public import loads

if TYPE_CHECKING:
    from havasu_vc.review.json import format_json as format_json
    from havasu_vc.review.json import json_value as json_value
    from havasu_vc.review.markdown import COMMENT_LIMIT as COMMENT_LIMIT
    from havasu_vc.review.markdown import SUMMARY_LIMIT as SUMMARY_LIMIT
    from havasu_vc.review.markdown import format_markdown as format_markdown
    from havasu_vc.review.markdown_parts import code_span as code_span
    from havasu_vc.review.notebook import review_html as review_html
    from havasu_vc.review.page.cells import shown_values as shown_values
    from havasu_vc.review.page.collecting import Page as Page
    from havasu_vc.review.page.document import asset as asset
    from havasu_vc.review.page.document import tiles_of as tiles_of
    from havasu_vc.review.page.document import write_page as write_page
    from havasu_vc.review.page.places import listed_shapes as listed_shapes
    from havasu_vc.review.page.raster_pictures import raster_pictures as raster_pictures
    from havasu_vc.review.policy import parse_policy as parse_policy
    from havasu_vc.review.policy_checking import broken_findings as broken_findings
    from havasu_vc.review.policy_checking import check_edits as check_edits
    from havasu_vc.review.policy_checking import check_moves as check_moves
    from havasu_vc.review.policy_checking import read_policy as read_policy
    from havasu_vc.review.pull_requests import QueuedMerge as QueuedMerge
    from havasu_vc.review.pull_requests import ReviewedRequest as ReviewedRequest
    from havasu_vc.review.pull_requests import ReviewJob as ReviewJob
    from havasu_vc.review.pull_requests import fetch_request as fetch_request
    from havasu_vc.review.pull_requests import review_queued as review_queued
    from havasu_vc.review.pull_requests import review_request as review_request
    from havasu_vc.review.report import Review as Review
    from havasu_vc.review.requests import BrokenRequest as BrokenRequest
    from havasu_vc.review.requests import ReviewOptionsRequest as ReviewOptionsRequest
    from havasu_vc.review.requests import ReviewRequest as ReviewRequest
    from havasu_vc.review.reviewing import review as review
    from havasu_vc.review.reviewing import review_diffs as review_diffs
    from havasu_vc.review.words import type_words as type_words
    from havasu_vc.review.writing import ReviewOptions as ReviewOptions
    from havasu_vc.review.writing import review_options as review_options
    from havasu_vc.review.writing import write_html as write_html
    from havasu_vc.review.writing import write_markdown as write_markdown

__getattr__ = loads(
    __name__,
    {
        "json": ["format_json", "json_value"],
        "markdown": ["COMMENT_LIMIT", "SUMMARY_LIMIT", "format_markdown"],
        "markdown_parts": ["code_span"],
        "notebook": ["review_html"],
        "page.cells": ["shown_values"],
        "page.collecting": ["Page"],
        "page.document": ["asset", "tiles_of", "write_page"],
        "page.places": ["listed_shapes"],
        "page.raster_pictures": ["raster_pictures"],
        "policy": ["parse_policy"],
        "policy_checking": ["broken_findings", "check_edits", "check_moves", "read_policy"],
        "pull_requests": [
            "QueuedMerge",
            "ReviewJob",
            "ReviewedRequest",
            "fetch_request",
            "review_queued",
            "review_request",
        ],
        "report": ["Review"],
        "reviewing": ["review", "review_diffs"],
        "words": ["type_words"],
        "writing": ["ReviewOptions", "review_options", "write_html", "write_markdown"],
        "requests": ["BrokenRequest", "ReviewOptionsRequest", "ReviewRequest"],
    },
)
