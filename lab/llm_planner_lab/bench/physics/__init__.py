# SPDX-License-Identifier: Apache-2.0
"""How robots with bodies do: task success in physics and in the kinematic world, and how fast the world runs."""
