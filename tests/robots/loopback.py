# SPDX-License-Identifier: Apache-2.0
"""Loopback addresses of this process alone, so that test processes side by side do not meet."""

import os
import time


def loopback(number):
    pid = os.getpid()
    return f"127.{64 + (pid >> 8) % 128}.{pid % 256}.{number}"


def wait_until(is_met, timeout_s=20.0):
    """Polls; the timeout is generous because these tests run alongside others on two cores."""
    deadline = time.monotonic() + timeout_s
    while not is_met():
        assert time.monotonic() < deadline, "condition not met in time"
        time.sleep(0.005)
