"""A git tree seen as a table: the protocol, and one package per kind of dataset."""
