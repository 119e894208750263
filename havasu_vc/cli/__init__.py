"""The command line: one file per command that parses, calls `Repo` and prints.

Nothing below this package knows of click, rich, exit codes or the terminal.
"""
