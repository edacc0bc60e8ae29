# SPDX-License-Identifier: Apache-2.0
"""The fixtures of the product's tests."""

from tests.ros.conftest import planner, ros, start_planner, start_robot

__all__ = ["planner", "ros", "start_planner", "start_robot"]
