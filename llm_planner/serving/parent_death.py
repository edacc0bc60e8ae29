"""Has the kernel end a child process when its parent dies, even while the child is stopped, busy or hung."""

import ctypes
import multiprocessing
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ends this process as soon as the parent that spawned it is dead, which may already be so.

    On Linux the kernel sends SIGKILL, which a stopped process obeys too. It does so when the *thread* that created this
    process ends (prctl(2)), so that thread must live as long as the child. Elsewhere the end of the pipe to the parent
    is the only sign (``child_process``).
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent.pid:  # it died before the kernel knew
        os._exit(1)
