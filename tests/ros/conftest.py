"""A ROS domain of this session's own, on this machine only; without ROS the folder is skipped, with the reason."""

import importlib.util
import os

os.environ["ROS_DOMAIN_ID"] = str(1 + os.getpid() % 100)
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ["FASTDDS_BUILTIN_TRANSPORTS"] = "UDPv4"  # shared memory: a client that died costs the next one seconds

HAS_ROS = all(importlib.util.find_spec(name) for name in ("rclpy", "llm_planner.msg"))
collect_ignore_glob = [] if HAS_ROS else ["test_*.py"]


def pytest_report_header():
    return f"tests/ros: ROS domain {os.environ['ROS_DOMAIN_ID']}" if HAS_ROS else "tests/ros: skipped, no rclpy"
