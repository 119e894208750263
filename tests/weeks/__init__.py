"""A week of each kind of user: commands alone, and after each day what a plain dict says."""
