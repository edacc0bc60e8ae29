# SPDX-License-Identifier: Apache-2.0
"""Drivers of real robots: the same ``SkillDriver`` as the kinematic one, over the robot's own protocol."""
