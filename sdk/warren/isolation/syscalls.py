"""The system calls that nobody inside may make, as a seccomp filter for this kernel.

Refused are those that build, trace or manage what a program has no business with, those that hide
memory from its limits, and sockets of every family but those that are named (a network namespace does not
close AF_VSOCK and others). The filter is written by libseccomp, which knows the numbers of every
architecture.
"""

import ctypes
import errno
import os
import socket
from functools import lru_cache

from warren.isolation.errors import CannotIsolate

DENIED = """
acct add_key bpf chroot clock_adjtime clock_settime delete_module fanotify_init finit_module
fsconfig fsmount fsopen fspick init_module io_uring_enter io_uring_register io_uring_setup
ioperm iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie mbind memfd_create
memfd_secret mount mount_setattr move_mount move_pages name_to_handle_at nfsservctl
open_by_handle_at open_tree perf_event_open personality pidfd_getfd pivot_root process_madvise
process_vm_readv process_vm_writev ptrace quotactl quotactl_fd reboot request_key seccomp semget
set_mempolicy setns settimeofday shmget swapoff swapon sysfs syslog umount umount2 unshare
uselib userfaultfd vhangup
"""
"""Answered with "not permitted"."""
DENIED_WITHOUT_NAMESPACES = """
chmod chown fchmod fchmodat fchmodat2 fchown fchownat fremovexattr fsetxattr futimesat
ioprio_set lchown lremovexattr lsetxattr mq_open msgget removexattr setpriority setxattr socket utime
utimensat utimes
"""
"""Besides, where the file system and the network are those of the host."""
OF_OTHERS = "prlimit64 sched_setaffinity sched_setattr sched_setparam sched_setscheduler"
"""Allowed of the caller itself, who is 0: a limit on processor time can kill any process of its user."""
_NAMESPACES = (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
"""Flags of `clone`: new time, mount, cgroup, UTS, IPC, user, PID, network namespace."""
_FAMILIES = range(64)
LOCAL = frozenset({int(socket.AF_UNIX)})
INTERNET = LOCAL | {int(socket.AF_INET), int(socket.AF_INET6), int(socket.AF_NETLINK)}
"""Libraries ask by the last one which addresses there are."""
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_NOT_EQUAL, _EQUAL, _MASKED_EQUAL = 1, 4, 7


class _Argument(ctypes.Structure):
    _fields_ = (
        ("number", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    )


@lru_cache(maxsize=4)
def filter_program(*, has_namespaces: bool, families: frozenset[int] = LOCAL) -> bytes:
    """Instructions for `bwrap --seccomp` or `prctl`; sockets may be of these families, and of none without
    namespaces. Raises `CannotIsolate`."""
    rules = _Rules()
    denied = DENIED if has_namespaces else DENIED + DENIED_WITHOUT_NAMESPACES
    for name in denied.split():
        rules.deny(name, errno.EPERM)
    for name in OF_OTHERS.split():
        rules.deny(name, errno.EPERM, (0, _NOT_EQUAL, 0, 0))
    rules.deny("clone3", errno.ENOSYS)  # its flags can't be looked at; libc then uses clone
    for flag in _NAMESPACES:
        rules.deny("clone", errno.EPERM, (0, _MASKED_EQUAL, flag, flag))
    if has_namespaces:
        for family in set(_FAMILIES) - families:
            rules.deny("socket", errno.EAFNOSUPPORT, (0, _EQUAL, family, 0))
    return rules.exported()


class _Rules:
    def __init__(self) -> None:
        self._library = _library()
        self._filter = ctypes.c_void_p(self._library.seccomp_init(ctypes.c_uint32(_ALLOW)))

    def deny(self, name: str, number: int, *arguments: tuple[int, int, int, int]) -> None:
        """Answer this call with an error; names that this architecture lacks are passed over."""
        call = self._library.seccomp_syscall_resolve_name(name.encode())
        if call < 0:
            return
        listed = (_Argument * len(arguments))(*(_Argument(*argument) for argument in arguments))
        action = ctypes.c_uint32(_ERRNO | number)
        result = self._library.seccomp_rule_add_array(
            self._filter, action, call, len(arguments), listed
        )
        if result < 0:
            raise CannotIsolate(f"libseccomp refuses a rule for {name}: {os.strerror(-result)}")

    def exported(self) -> bytes:
        with os.fdopen(os.memfd_create("filter"), "rb") as file:
            result = self._library.seccomp_export_bpf(self._filter, file.fileno())
            self._library.seccomp_release(self._filter)
            if result < 0:
                raise CannotIsolate(f"libseccomp writes no filter: {os.strerror(-result)}")
            file.seek(0)
            return file.read()


def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError as error:
        raise CannotIsolate("libseccomp is not installed (Debian: libseccomp2)") from error
    library.seccomp_init.restype = ctypes.c_void_p
    return library
