"""MuJoCo itself: an optional package, imported here and nowhere else."""

import os
from typing import Any

from llm_planner.core.errors import ErrorCode, PlannerError


def load_mujoco() -> Any:
    """Returns the module ``mujoco``; its window is never opened, and pictures are made without a display.

    Raises:
        PlannerError: INVALID_CONFIG if it is not installed.
    """
    os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        import mujoco
    except ImportError as error:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"MuJoCo is not installed ({error}); install it with: pip install -r requirements/mujoco.txt",
        ) from error
    return mujoco
