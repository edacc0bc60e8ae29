# SPDX-License-Identifier: Apache-2.0
"""MuJoCo itself: an optional package, imported here and nowhere else."""

import os
from typing import Any

from llm_planner.core.extras import load_extra


def load_mujoco() -> Any:
    """Returns the module ``mujoco``; its window is never opened, and pictures are made without a display.

    Raises:
        PlannerError: INVALID_CONFIG if it is not installed.
    """
    os.environ.setdefault("MUJOCO_GL", "egl")
    return load_extra("mujoco", "sim")
