"""The summary of a change for people who decide on it: what, how much, where, and what is odd."""
