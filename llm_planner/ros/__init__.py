# SPDX-License-Identifier: Apache-2.0
"""The only place that imports rclpy: planner node, robot nodes, conversions, composition."""
