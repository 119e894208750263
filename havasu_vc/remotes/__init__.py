"""Git refs, then the data files that they name, to and from elsewhere."""
