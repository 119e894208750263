"""What mkdocs asks when it builds the site: the pages of the commands, and versions."""

import os
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from havasu_vc.cli.command_pages import GROUPS, command_page, commands_overview, uses_in

PLACE = "reference/commands"
# Where commands are shown to people who want something done, the best places first.
SHOWN_IN = ("getting-started", "guides", "users")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give each command its place in the navigation, and mike's builds their versions."""
    for section in config.nav or []:
        if "Commands" in section:
            groups = [
                {group: [{name: f"{PLACE}/{name}.md"} for name in names]}
                for group, names in GROUPS.items()
            ]
            section["Commands"] = [f"{PLACE}/index.md", *groups, *section["Commands"]]
    if "MIKE_DOCS_VERSION" in os.environ:
        config.extra["version"] = {"provider": "mike"}
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages of the commands."""
    docs = Path(config.docs_dir)
    uses = [
        use
        for folder in SHOWN_IN
        for page in sorted((docs / folder).glob("*.md"))
        for use in uses_in(page.relative_to(docs).as_posix(), page.read_text("utf-8"))
    ]
    pages = {"index": commands_overview()}
    for names in GROUPS.values():
        for name in names:
            pages[name] = command_page(name, [use for use in uses if use.command == name])
    for name, text in pages.items():
        files.append(File.generated(config, f"{PLACE}/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> None:
    """Give the first page the room of the list beside it, which would name that page alone."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
