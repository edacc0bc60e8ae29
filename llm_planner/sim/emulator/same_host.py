# SPDX-License-Identifier: Apache-2.0
"""Runs a third party's robot program, unchanged, on the machine of the emulator.

A driver such as djitellopy binds the drone's own port on every address, which Linux refuses while an emulated drone has
that port on one of them. So sockets that the program binds to every address are bound to one loopback address, and
share the port with this product's own driver. On another machine, or in a network namespace of its own, nothing of this
is needed.

This file is also run by the interpreter of another environment (``emulate run --python``): it imports the standard
library alone.
"""

import runpy
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

EVERYWHERE = ("", "0.0.0.0")  # noqa: S104 (what others bind)


def run_on_same_host(script: Path, arguments: Sequence[str], address: str) -> None:
    """Runs a Python program as ``python script arguments`` would; its UDP sockets stay on ``address``."""

    class OneAddressSocket(socket.socket):
        def bind(self, wanted: Any) -> None:
            is_wide = self.family == socket.AF_INET and self.type == socket.SOCK_DGRAM and wanted[0] in EVERYWHERE
            if is_wide:  # a driver of ours alongside has the port on every address: both must agree to share
                self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                wanted = (address, *wanted[1:])
            super().bind(wanted)

    with (
        mock.patch.object(socket, "socket", OneAddressSocket),
        mock.patch.object(sys, "argv", [str(script), *arguments]),
    ):
        runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    run_on_same_host(Path(sys.argv[2]), sys.argv[3:], sys.argv[1])
