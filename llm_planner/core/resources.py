# SPDX-License-Identifier: Apache-2.0
"""Where the data files are: robot models, bundled models, presets, launch files."""

import os
import sys
from pathlib import Path

PACKAGE = "llm_planner"


def share_dir() -> Path:
    """Returns the directory that holds ``robot_models/``, ``models/`` and ``config/``.

    A source checkout comes first, then every prefix of ``AMENT_PREFIX_PATH``, then this interpreter's prefix.

    Raises:
        FileNotFoundError: If none of them has the data files.
    """
    checkout = Path(__file__).resolve().parents[2]
    prefixes = [*filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)), sys.prefix]
    candidates = [checkout, *(Path(prefix) / "share" / PACKAGE for prefix in prefixes)]
    for candidate in candidates:
        if (candidate / "robot_models").is_dir():
            return candidate
    raise FileNotFoundError(f"no robot_models directory in any of {[str(c) for c in candidates]}")
