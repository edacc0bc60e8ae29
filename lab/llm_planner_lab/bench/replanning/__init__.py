# SPDX-License-Identifier: Apache-2.0
"""Replanning measured: segments fail on the robot, and the plan goes on another way, or is made again."""
