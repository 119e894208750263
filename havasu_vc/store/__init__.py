"""Bytes by id: git objects, refs, the index and the work tree; the data files.

Below are no tables: a tree here is a tree, a data file is bytes with a hash. One
`GitRepository` is opened per command and handed to the functions of the other
modules; only `Repo` calls them.
"""
