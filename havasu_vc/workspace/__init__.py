"""Checked-out Havasu tables: made from datasets, and their edits taken in."""
