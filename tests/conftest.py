# SPDX-License-Identifier: Apache-2.0
"""Isolation of test runs: one ROS domain per process, localhost only, one thread, no network, no display."""

import importlib.util
import os
import socket
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from llm_planner.ros.network import Network, environment

_DOMAINS = range(101, 0, -1)  # above 101 the DDS ports meet Linux's ephemeral ports; 0 is the default of all


def _claim_ros_domain() -> tuple[int, socket.socket]:
    """Returns a ROS domain that no other test process on this machine uses, and what keeps it ours.

    The claim is a socket with an abstract name (Linux): no file that another user could have put there before, and the
    system frees it when this process ends, however it ends. Another user's claim is a domain that is taken, no more.
    """
    for domain in _DOMAINS:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0llm_planner/tests/ros_domain_{domain}")
        except OSError:
            claim.close()
            continue
        return domain, claim
    raise RuntimeError(f"every ROS domain in {_DOMAINS} is taken by a running test process")


# At import, before any test module imports rclpy or torch; children of the tests inherit all of it.
_ros_domain, _ros_domain_claim = _claim_ros_domain()
_cache_directory = tempfile.TemporaryDirectory(prefix="llm_planner_cache_", ignore_cleanup_errors=True)
for variable, name in (("MPLCONFIGDIR", "matplotlib"), ("VLLM_CACHE_ROOT", "vllm")):  # slow to make again
    os.environ.setdefault(variable, str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / name))
_log_directory = tempfile.TemporaryDirectory(prefix="llm_planner_ros_log_", ignore_cleanup_errors=True)
os.environ.update(
    ROS_DOMAIN_ID=str(_ros_domain),
    ROS_LOG_DIR=_log_directory.name,
    XDG_CACHE_HOME=_cache_directory.name,  # no test counts on what a planner has measured on this machine
    RMW_IMPLEMENTATION="rmw_fastrtps_cpp",
    OMP_NUM_THREADS="1",  # xdist gives every core a worker; this also keeps float sums reproducible
    MKL_NUM_THREADS="1",
    HF_HUB_OFFLINE="1",
    MPLBACKEND="Agg",
)
os.environ.update(environment(Network.HOST, os.environ))  # loopback alone, and no shared memory that a crash leaves
os.environ.setdefault("MUJOCO_GL", "egl")  # pictures without a display; MuJoCo reads it when it is imported
os.environ.pop("ROS_LOCALHOST_ONLY", None)  # the deprecated spelling would win over the range above
for size in ("COLUMNS", "LINES"):  # of a user's terminal, which xdist hands to its workers
    os.environ.pop(size, None)
if sys.prefix not in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep):
    os.environ["AMENT_PREFIX_PATH"] = os.pathsep.join(filter(None, [sys.prefix, os.environ.get("AMENT_PREFIX_PATH")]))

settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


_REQUIREMENTS = {
    "gpu": (_has_gpu, "no CUDA device"),
    "vllm": (lambda: importlib.util.find_spec("vllm") is not None, "vLLM is not installed"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what this machine cannot run, with the reason."""
    for marker, (is_available, reason) in _REQUIREMENTS.items():
        marked = [item for item in items if item.get_closest_marker(marker)]
        if marked and not is_available():
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=reason))
