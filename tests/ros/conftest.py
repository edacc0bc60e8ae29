"""Without ROS this folder is skipped, with the reason in the header."""

import importlib.util

HAS_ROS = all(importlib.util.find_spec(name) for name in ("rclpy", "llm_planner.msg"))
collect_ignore_glob = [] if HAS_ROS else ["test_*.py"]


def pytest_report_header():
    return None if HAS_ROS else "tests/ros: skipped, rclpy or the compiled interfaces are missing"
