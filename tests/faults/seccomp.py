"""The kernel's own seam: a process tree stops at chosen system calls until we have answered.

A filter (`seccomp`, user notification) is inherited by everything that a process starts, and
stands below every library: what Python, Arrow, SQLite, libgit2, git or a shell asks the kernel
for arrives here, also from inside of libc. Nothing is preloaded and nothing compiled.
"""

import array
import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import socket
import struct
from dataclasses import dataclass

__all__ = ["Notice", "answer", "install", "lacking_seam", "memory", "receive", "take_file", "words"]

_libc = ctypes.CDLL(None, use_errno=True)

NUMBERS = {
    "x86_64": {"seccomp": 317, "process_vm_readv": 310, "pidfd_getfd": 438, "arch": 0xC000003E},
    "aarch64": {"seccomp": 277, "process_vm_readv": 270, "pidfd_getfd": 438, "arch": 0xC00000B7},
}
_NEW_LISTENER = 1 << 3
_RECEIVE, _SEND, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_CONTINUE = 1


@dataclass(frozen=True, slots=True)
class Notice:
    """A system call that waits for an answer."""

    id: int
    process: int
    """The thread that makes it."""
    number: int
    arguments: tuple[int, ...]


def lacking_seam() -> str | None:
    """Return why processes cannot be watched on this machine, if they cannot."""
    if platform.system() != "Linux" or platform.machine() not in NUMBERS:
        return "system calls are watched on Linux alone, on x86-64 and ARM64"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = os.fork()
        if not child:
            try:
                install({}, theirs)
            except OSError as error:
                theirs.send(os.strerror(error.errno or 0).encode())
            os._exit(0)
        theirs.close()
        data, descriptors, _, _ = socket.recv_fds(ours, 100, 1)
        os.waitpid(child, 0)
    for number in descriptors:
        os.close(number)
    return None if descriptors else f"system calls cannot be watched here: {data.decode()}"


def install(watched: dict[int, tuple[int, int] | None], to: socket.socket) -> None:
    """Have this process and all that it will start stop at system calls; give `to` the listener.

    `watched` are numbers, each with an argument's place and the bits, any of which make the call
    one to stop at.
    """
    names = NUMBERS[platform.machine()]
    program = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, names["arch"]), (_RETURN, 0, 0, _ALLOW)]
    program.append((_LOAD, 0, 0, 0))
    for number, bits in watched.items():
        if bits is None:
            program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTIFY)]
            continue
        place, mask = bits
        program += [
            (_EQUAL, 0, 4, number),
            (_LOAD, 0, 0, 16 + 8 * place),
            (_ANY_BIT, 0, 1, mask),
            (_RETURN, 0, 0, _NOTIFY),
            (_RETURN, 0, 0, _ALLOW),
        ]
    program.append((_RETURN, 0, 0, _ALLOW))
    code = b"".join(struct.pack("HBBI", *each) for each in program)
    text = ctypes.create_string_buffer(code, len(code))
    head = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(text))
    _check(_libc.prctl(38, 1, 0, 0, 0))  # no new privileges, which is what allows the filter
    listener = _check(_syscall(names["seccomp"], 1, _NEW_LISTENER, head))
    socket.send_fds(to, [b"listener"], [listener])
    os.close(listener)


def prefer_one_processor(listener: int) -> None:
    """Have the kernel go from a call straight to who waits for it; older ones cannot."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(listener, _SET_FLAGS, 1)


def receive(listener: int) -> Notice | None:
    """Return the call that waits; None if its process died meanwhile."""
    data = bytearray(80)
    try:
        fcntl.ioctl(listener, _RECEIVE, data)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    identity, process, _, number, _, _, *arguments = struct.unpack("QIIiIQ6Q", data)
    return Notice(identity, process, number, tuple(arguments))


def answer(listener: int, notice: Notice, *, error: int = 0, value: int | None = None) -> None:
    """Let a call happen; or fail with an error; or return a value without happening."""
    flags = 0 if error or value is not None else _CONTINUE
    data = struct.pack("QqiI", notice.id, value or 0, -error, flags)
    try:
        fcntl.ioctl(listener, _SEND, data)
    except FileNotFoundError:
        pass  # it died


def memory(process: int, address: int, size: int) -> bytes:
    """Return bytes of another process, up to where they can be read."""
    if not address or not size:
        return b""
    buffer = ctypes.create_string_buffer(size)
    pairs = struct.pack("QQ", ctypes.addressof(buffer), size), struct.pack("QQ", address, size)
    number = NUMBERS[platform.machine()]["process_vm_readv"]
    done = _syscall(number, process, pairs[0], 1, pairs[1], 1, 0)
    return buffer.raw[: max(done, 0)]


def take_file(process: int, number: int) -> int:
    """Return a descriptor of our own of a file that another process has open."""
    group = process
    with open(f"/proc/{process}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("Tgid:"):
                group = int(line.split()[1])
    handle = os.pidfd_open(group)
    try:
        return _check(_syscall(NUMBERS[platform.machine()]["pidfd_getfd"], handle, number, 0))
    finally:
        os.close(handle)


def words(data: bytes) -> list[int]:
    """Return bytes as machine words."""
    return list(array.array("Q", data[: len(data) // 8 * 8]))


def _syscall(number: int, *arguments: int | bytes) -> int:
    # Whole words: what ctypes makes of a number has no upper half, and the stack has any.
    full = [each if isinstance(each, bytes) else ctypes.c_long(each) for each in arguments]
    return int(_libc.syscall(ctypes.c_long(number), *full))


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
