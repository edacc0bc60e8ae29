# SPDX-License-Identifier: Apache-2.0
"""What a robot can do and how long it takes: robot models (YAML), durations, interpreter, kinematic world."""
