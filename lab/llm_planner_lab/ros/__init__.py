# SPDX-License-Identifier: Apache-2.0
"""What ROS 2 costs: latency, endurance, traces of a running planner."""
