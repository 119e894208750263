"""Tables from and to elsewhere: one foreign format per file."""
