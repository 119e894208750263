"""Havasu datasets: immutable Parquet files named by git, seen as a table.

view        a dataset in a git tree; scans and diffs as tasks
apply       checking changes against it
edit        the files that a commit adds and removes
build       a new dataset from files that an import wrote
kernels     what tasks run
"""
