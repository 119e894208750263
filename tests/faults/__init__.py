"""Faults on purpose: every call by which a command changes a file fails once, or kills it.

`seccomp` has the kernel stop a process tree at chosen system calls, `calls` says what such a
call is about, `running` runs a command of ours and makes one call go wrong, `scenes` are the
commands with a repository each, `checks` say what must hold afterwards. `make faults` runs
all of it.
"""
