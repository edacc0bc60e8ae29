# SPDX-License-Identifier: Apache-2.0
"""Robots and worlds for Gazebo and other tools: URDF, SDF and bridges from the same YAML as MuJoCo's bodies."""
