"""A filter of system calls for a process that is confined already: what no function of a benchmark needs.

Namespaces keep addresses of a network out of reach, but not every kind of socket belongs to one (``AF_VSOCK`` leads to
a hypervisor), and tracing, keyrings, shared memory that no limit counts and the like only widen what a fault of the
kernel could be used for. The filter is classic BPF (seccomp, kernel documentation ``userspace-api/seccomp_filter``).
"""

from __future__ import annotations

import ctypes
import errno
import platform

#: Machine -> (its number in audit records, the numbers of its system calls).
_MACHINES: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (0xC000003E, {
        "shmget": 29, "socket": 41, "ptrace": 101, "mount": 165, "swapon": 167, "add_key": 248, "request_key": 249,
        "keyctl": 250, "unshare": 272, "perf_event_open": 298, "setns": 308, "bpf": 321, "userfaultfd": 323,
        "io_uring_setup": 425}),
    "aarch64": (0xC00000B7, {
        "mount": 40, "unshare": 97, "ptrace": 117, "shmget": 194, "socket": 198, "add_key": 217, "request_key": 218,
        "keyctl": 219, "swapon": 224, "perf_event_open": 241, "setns": 268, "bpf": 280, "userfaultfd": 282,
        "io_uring_setup": 425}),
}
_X32 = 0x40000000  # the second set of system calls of x86_64
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_NUMBER, _MACHINE = 0, 4  # offsets in what a filter is given
_SET_SECCOMP, _FILTER = 22, 2


class _Step(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("then", ctypes.c_uint8), ("otherwise", ctypes.c_uint8),
                ("value", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.POINTER(_Step))]


def refuse_system_calls() -> bool:
    """From now on the calls above fail with ``EPERM`` in this process and all it starts, for good. Returns whether that
    could be had: on a machine not known here, or a kernel without filters, namespaces are all there is.

    The process must have given up new privileges before.
    """
    known = _MACHINES.get(platform.machine())
    if known is None:
        return False
    audit, calls = known
    refused = [(_AT_LEAST, _X32), *((_EQUAL, number) for number in sorted(calls.values()))]
    steps = [_Step(_LOAD, 0, 0, _MACHINE), _Step(_EQUAL, 0, len(refused) + 2, audit), _Step(_LOAD, 0, 0, _NUMBER)]
    steps += [_Step(code, len(refused) - place, 0, value) for place, (code, value) in enumerate(refused)]
    steps += [_Step(_RETURN, 0, 0, _ALLOW), _Step(_RETURN, 0, 0, _REFUSE)]
    program = _Program(len(steps), (_Step * len(steps))(*steps))
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.prctl(_SET_SECCOMP, ctypes.c_ulong(_FILTER), ctypes.byref(program), 0, 0) == 0
