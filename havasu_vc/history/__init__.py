"""Algorithms over datasets: how two versions differ, and what comes of changes."""
