# SPDX-License-Identifier: Apache-2.0
"""Steps the system time of all processes of a campaign, and of no others."""

import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("clock_step.c")
VARIABLE = "LLM_PLANNER_CHAOS_CLOCK"


class StepClock:
    """A library between processes and libc through which they read CLOCK_REALTIME.

    A time namespace has no offset for it, and the system time of the machine belongs to others too.

    Args:
        directory: Of the campaign; the library is compiled there.

    Attributes:
        environment: Of processes whose time steps; empty where there is no C compiler, or not this libc.
    """

    def __init__(self, directory: Path) -> None:
        self._file, library = directory / "clock", directory / "clock_step.so"
        self._offset_s = 0.0
        self._write()
        self.environment: dict[str, str] = {}
        command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl", "-lpthread"]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return
        self.environment = {"LD_PRELOAD": str(library), VARIABLE: str(self._file)}

    def step(self, seconds: float) -> None:
        """Adds to the system time of all processes at once."""
        self._offset_s += seconds
        self._write()

    def _write(self) -> None:
        data = struct.pack("=q", int(self._offset_s * 1e9))
        if self._file.exists():
            with self._file.open("r+b") as file:  # the same inode, which the processes have mapped
                file.write(data)
        else:
            self._file.write_bytes(data)
