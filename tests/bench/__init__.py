"""The benchmark: measures what the design promises, `make bench` or `python -m tests.bench`.

A case makes figures; a figure is a measured value beside the one asked for. Ratios are
taken side by side in one run, so that they hold on any machine. Programs are measured
as whole processes; the process that measures loads no library, because a child's
peak memory begins at its parent's.

    data, edits    tables and edits, always the same, made once into .bench/
    process        one command: time, processor time, peak memory
    jobs           work with the library or with pyarrow, in a process of its own
    scratch        tables and repositories that cases share
    cases          what a case and a figure are
    importing, changing, comparing, storing   the cases
"""
