"""Keeping a repository in good shape: checking, collecting garbage, optimizing, repairing."""
