"""The documents of a change."""
