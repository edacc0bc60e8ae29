# SPDX-License-Identifier: Apache-2.0
"""Did they collide? A mover crosses a drone's way, in physics; the planner answers in time, late, or never."""
