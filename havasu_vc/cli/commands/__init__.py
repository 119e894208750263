"""The commands, one per file, each imported only when it is called."""
