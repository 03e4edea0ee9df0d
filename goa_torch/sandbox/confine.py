"""Takes everything away from a process that code it does not trust should not have. Linux alone; pure stdlib.

:func:`separate` gives the children of this process namespaces of their own (user where needed, pid, network, mounts,
IPC, host name); :func:`confine`, called by such a child, leaves it an empty file system that holds the interpreter
read-only and a small scratch folder in memory, an unprivileged user, no capabilities and hard limits. When the child
ends, the kernel kills whatever it started, and the scratch folder is gone.

``chroot`` after ``pivot_root`` is on purpose: the kernel gives no user namespace, hence no capabilities of any kind, to
a process whose root is not that of its mounts.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import stat
from collections.abc import Callable, Mapping, Sequence

from .syscalls import refuse_system_calls

_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = (
    0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
_SPACES = _NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE, _SYS_MOUNT_SETATTR, _ATTR_RDONLY, _ATTR_NOSUID = -100, 0x8000, 442, 1, 2
_SET_PDEATHSIG, _SET_DUMPABLE, _SET_NO_NEW_PRIVS = 1, 4, 38
_CAPABILITY_VERSION_3 = 0x20080522
#: Where a system keeps the shared libraries of an interpreter.
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/gnu/store", "/etc/ld.so.cache")
_DEVICES = ("null", "zero", "random", "urandom")
_libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """This system does not let a process be confined; says what it does not allow."""


def _call(what: str, function: Callable[..., int], *arguments: object) -> None:
    if function(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _mount(source: str, target: str, kind: str | None = None, flags: int = 0, options: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
    _call(f"mounting {target}", _libc.mount, words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])


def _prctl(what: str, option: int, value: int) -> None:
    _call(what, _libc.prctl, option, ctypes.c_ulong(value), 0, 0, 0)


def separate() -> tuple[int, int] | None:
    """Namespaces for the children of this process. Returns the (user, group) that :func:`confine` must still become:
    ids that nobody else has where this process is root, ``None`` where it is an unprivileged user already.

    Raises:
        Refused: with what the system does not allow.
    """
    nobody = _free_ids()
    if os.geteuid() == 0:
        try:
            _call("namespaces", _libc.unshare, _SPACES)
            return nobody
        except OSError as error:
            if error.errno != errno.EPERM:
                raise Refused(f"the kernel refuses {error.strerror}") from None
        # root in a container that may not have namespaces as such: try as an unprivileged user, where limits hold
        try:
            _become(nobody)
        except OSError as why:
            raise Refused(f"root may neither have namespaces nor become another user ({why.strerror})") from None
    user, group = os.geteuid(), os.getegid()
    try:
        _prctl("dumpable", _SET_DUMPABLE, 1)  # else /proc/self is root's after a change of user
        _call("user, pid and network namespaces", _libc.unshare, _NEWUSER | _SPACES)
        for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(line)
    except OSError as error:
        raise Refused(f"the kernel refuses {error.strerror} to an unprivileged user") from None
    return None


def _free_ids() -> tuple[int, int]:
    """Ids that no account has, different for every process, so that limits by user count this sandbox alone."""
    number = (1 << 30) + os.getpid()
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            mapped = [tuple(map(int, line.split())) for line in file]
    except OSError:
        mapped = []
    if not any(first <= number < first + count for first, _, count in mapped):
        number = 40_000 + os.getpid() % 20_000  # a container that knows 65,536 users
    return number, number


def _become(ids: tuple[int, int]) -> None:
    os.setgroups([])
    os.setresgid(ids[1], ids[1], ids[1])
    os.setresuid(ids[0], ids[0], ids[0])


def confine(ids: tuple[int, int] | None, folders: Sequence[str], limits: Mapping[int, int], scratch: int) -> None:
    """Confines this process for good.

    Args:
        ids: what :func:`separate` returned.
        folders: what it may read besides the system's libraries (of an interpreter, say).
        limits: ``resource.RLIMIT_*`` -> most.
        scratch: size of the scratch folder ``/tmp``, the current folder afterwards, in bytes.

    Raises:
        Refused: with what the system does not allow.
    """
    try:
        try:  # no shared memory beside that which the limits count
            with open("/proc/sys/kernel/shmall", "w", encoding="ascii") as file:
                file.write("0")
        except OSError:
            pass  # older kernels let only the real root set it; segments die with the namespace
        _change_root(folders, scratch)
        if ids is not None:
            _become(ids)
        for limit, most in limits.items():
            resource.setrlimit(limit, (most, most))
        _drop_capabilities()
        _prctl("no new privileges", _SET_NO_NEW_PRIVS, 1)
        _prctl("ending with its supervisor", _SET_PDEATHSIG, 9)
        refuse_system_calls()
    except (OSError, ValueError) as error:
        raise Refused(f"the kernel refuses {getattr(error, 'strerror', None) or error}") from None
    if os.geteuid() == 0 or _can_become_root():
        raise Refused("generated code would run as root")


def _can_become_root() -> bool:
    try:
        os.setresuid(0, 0, 0)
    except OSError:
        return False
    return True


def _change_root(folders: Sequence[str], scratch: int) -> None:
    if "/" in folders:
        raise ValueError("an interpreter whose prefix is /")
    real = {folder: os.path.realpath(folder) for folder in folders}
    os.umask(0o022)
    _mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
    # a root of our own, in memory; the old one is below it until everything needed has been taken over
    _mount("tmpfs", "/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, "size=1m,mode=755")
    os.chdir("/tmp")
    os.mkdir("old")
    os.mkdir("jail")
    _call("a root of its own", _libc.pivot_root, b".", b"old")
    os.chdir("/")
    bound: list[str] = []
    for path in _SYSTEM:
        if os.path.islink(f"/old{path}"):
            os.symlink(os.readlink(f"/old{path}"), f"/jail{path}")
        elif os.path.exists(f"/old{path}"):
            _bind(path, path)
            bound.append(path)
    for path, source in sorted(real.items()):
        inside = any(source == there or source.startswith(f"{there}/") for there in bound)
        if os.path.exists(f"/old{source}") and not (inside and path == source):
            _bind(source, path)
            bound.append(path)
    for name in _DEVICES:
        _bind(f"/dev/{name}", f"/dev/{name}")
    os.mkdir("/jail/tmp")
    _call("leaving the old root", _libc.umount2, b"/old", _DETACH)
    attributes = (ctypes.c_uint64 * 4)(_ATTR_RDONLY | _ATTR_NOSUID, 0, 0, 0)
    _call("read-only mounts", _libc.syscall, _SYS_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE,
          ctypes.byref(attributes), ctypes.c_size_t(ctypes.sizeof(attributes)))
    _mount("tmpfs", "/jail/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={scratch},nr_inodes=1024,mode=1777")
    os.chroot("/jail")
    os.chdir("/tmp")


def _bind(source: str, target: str) -> None:
    """``source`` of the old root at ``target`` of the new one."""
    source, target = f"/old{source}", f"/jail{target}"
    if stat.S_ISDIR(os.stat(source).st_mode):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(source, target, flags=_MS_BIND | _MS_REC)


def _drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _call("dropping capabilities", _libc.capset, ctypes.byref(header), ctypes.byref(nothing))
