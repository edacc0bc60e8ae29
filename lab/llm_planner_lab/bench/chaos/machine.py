# SPDX-License-Identifier: Apache-2.0
"""What the kernel knows of the processes of a campaign, and a place of its own for their network, disk and memory."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from llm_planner_lab.bench.chaos.journal import DIRECTORY

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 -- it is where DDS and multiprocessing put theirs
_libc = ctypes.CDLL(None, use_errno=True)


def isolate() -> str:
    """Gives this process, and those that it starts, a network and a mount namespace of their own.

    Call it before any other thread is started.

    Returns:
        An empty string, or why it is not possible: then the network of the host is used, and what needs such a place is
        not done.
    """
    if _libc.unshare(CLONE_NEWNET | CLONE_NEWNS):
        return f"no namespaces of its own: {os.strerror(ctypes.get_errno())} (root has them, e.g. by sudo)"
    _libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None)
    if not set_loopback(is_up=True):
        return "no loopback in a network namespace of its own"
    mount(SHARED_MEMORY, 512)
    return ""


def mount(path: Path, megabytes: int) -> bool:
    """Puts a small disk (tmpfs) at a directory; returns whether that is possible."""
    return bool(_libc.mount(b"chaos", str(path).encode(), b"tmpfs", 0, f"size={megabytes}m".encode()) == 0)


def unmount(path: Path) -> None:
    """Takes it away again."""
    _libc.umount2(str(path).encode(), 2)


def set_loopback(*, is_up: bool) -> bool:
    """Connects or cuts all sockets of this network namespace; returns whether that worked."""
    command = ["ip", "link", "set", "lo", "up" if is_up else "down"]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def engine_pid(planner_pid: int) -> int | None:
    """Returns the engine process of a planner; None while there is none."""
    for pid in _pids():
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if (
            len(fields) > 1
            and int(fields[1]) == planner_pid
            and "child_process import main" in _read(f"/proc/{pid}/cmdline")
        ):
            return None if fields[0] in "ZX" else pid
    return None


def processes_of(directory: Path) -> dict[int, str]:
    """Returns all living processes of a campaign: those that inherited its variable, whatever their parent is now."""
    mark = f"{DIRECTORY}={directory}"
    found = {}
    for pid in _pids():
        if mark in _read(f"/proc/{pid}/environ").split("\0") and pid != os.getpid():
            fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
            if fields and fields[0] not in "ZX":
                found[pid] = _read(f"/proc/{pid}/cmdline").replace("\0", " ")[:200]
    return found


def is_alive(pid: int) -> bool:
    """Returns whether a process exists that has not ended."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return bool(fields) and fields[0] not in "ZX"


def resident_mb(pid: int) -> float | None:
    """Returns the memory that a process holds; None if it has ended."""
    return _status_mb(pid, "VmRSS")


def address_space_mb(pid: int) -> float | None:
    """Returns the address space of a process; None if it has ended."""
    return _status_mb(pid, "VmSize")


def processor_wait_s() -> float:
    """Returns for how long threads of this process could have run and had no processor, so far, all together."""
    tasks = Path("/proc/self/task").iterdir()
    return sum(int((_read(f"{task}/schedstat").split() or ("0", "0"))[1]) for task in tasks) / 1e9


def shared_memory() -> set[str]:
    """Returns the names of all that is in shared memory, but what ROS's tracing has there, once for every user."""
    return {path.name for path in SHARED_MEMORY.iterdir() if not path.name.startswith("lttng-ust-wait-")}


def had_to_be_killed(status: int) -> bool:
    """Returns whether an exit status says that a process did not end by itself within its time."""
    return status in (-signal.SIGKILL, -signal.SIGALRM)  # by its parent, or by the limit of ``ros.process``


def _status_mb(pid: int, name: str) -> float | None:
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    return None


def _pids() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").glob("[0-9]*"))


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
