# SPDX-License-Identifier: Apache-2.0
"""Robots with bodies: one MuJoCo world, in which drones fly and arms reach, in virtual time or as fast as real time."""
