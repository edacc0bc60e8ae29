# SPDX-License-Identifier: Apache-2.0
"""Runs a command that ends with the process that started it, however that process ends.

    python -I -S parent_death.py PARENT_PID SIGNAL COMMAND [ARGUMENT ...]

The kernel is told before the command is loaded: a program that imports for seconds, or for a minute on a busy machine,
would outlive its parent by as long. Without ``site`` and the user's environment this file needs some 10 ms of
processor time.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def ends_with_parent(command: Sequence[str], death_signal: signal.Signals) -> list[str]:
    """Returns the command that the calling process starts instead of ``command``.

    On Linux the kernel sends the signal, which a process that hangs gets too. It does so when the *thread* that started
    the command ends (prctl(2)), so that thread must live as long as the command.

    Args:
        command: Program and arguments.
        death_signal: SIGKILL for what may end at any moment; SIGTERM for what must do something first, and handles it.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(death_signal.value), *command]


def _main() -> None:
    parent_pid, death_signal, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)  # stays set across exec
    if os.getppid() != int(parent_pid):  # it died before the kernel was told
        sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 -- our own command, no shell


if __name__ == "__main__":
    _main()
