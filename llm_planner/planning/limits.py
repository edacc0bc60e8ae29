# SPDX-License-Identifier: Apache-2.0
"""How large a plan may be, whatever the robot. Grammar and safety gate share these numbers."""

MAX_CALLS = 500
"""Skill calls in the worst case: loops multiplied, every conditional taken."""
MAX_LOOP_COUNT = 100
"""Repetitions of one loop."""
MAX_DEPTH = 3
"""Blocks inside one another."""
MAX_VARIABLE = 99
"""Greatest index of a variable."""
