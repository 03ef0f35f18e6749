"""The limits and the isolation that a session gives itself before it runs anything.

Limits always. In the Landlock tier, where nobody has isolated us, also the file system
(Landlock: read-only, and nothing but what Python needs; no signals to the outside) and the system
calls (seccomp); in a container the system calls, for engines leave some open that we don't. None of it
can be taken down again.
"""

import ctypes
import os
import resource
import struct
from typing import Any, Dict, List  # noqa: UP035 - runs on old Pythons

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_FILTER = 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_PATH_BENEATH = 1
_EXECUTE, _READ_FILE, _READ_DIR, _WRITE_FILE = 1 << 0, 1 << 2, 1 << 3, 1 << 1
_ALL_FILE_ACCESS = (1 << 16) - 1
_ALL_NETWORK = 3
_ALL_SCOPES = 3
_READ_ONLY = _EXECUTE | _READ_FILE | _READ_DIR
SCOPED_ABI = 6
"""The first version of Landlock that keeps signals inside."""

_libc = ctypes.CDLL(None, use_errno=True)


def limit(limits: Dict[str, Any]) -> None:  # noqa: UP006
    os.nice(limits["nice"])
    for name, value in limits["resources"].items():
        resource.setrlimit(getattr(resource, name), (value, value))


def landlock_abi() -> int:
    """The version of Landlock that this kernel offers; 0 for none."""
    version = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(int(version), 0)


def enclose(readable: List[str], devices: List[str], program: bytes) -> None:  # noqa: UP006
    """Landlock and seccomp, for good. Raises `OSError`."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    attributes = struct.pack("QQQ", _ALL_FILE_ACCESS, _ALL_NETWORK, _ALL_SCOPES)
    ruleset = _call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    for path in readable:
        _allow(ruleset, path, _READ_ONLY)
    for path in devices:
        _allow(ruleset, path, _READ_FILE | _WRITE_FILE)
    _call(_RESTRICT_SELF, ctypes.c_int(ruleset), 0)
    os.close(ruleset)
    filter_calls(program)


def _allow(ruleset: int, path: str, access: int) -> None:
    if not os.path.exists(path):
        return
    if not os.path.isdir(path):
        access &= ~_READ_DIR
    beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    rule = struct.pack("=Qi", access, beneath)
    _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, 0)
    os.close(beneath)


def filter_calls(program: bytes) -> None:
    """Seccomp, for good. Raises `OSError`."""

    class Program(ctypes.Structure):
        _fields_ = [("n_instructions", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]

    whole = Program(len(program) // 8, program)
    _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(whole), 0, 0))


def _call(number: int, *arguments: Any) -> int:
    return _check(_libc.syscall(number, *arguments))


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
