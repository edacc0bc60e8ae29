# SPDX-License-Identifier: Apache-2.0
"""Where files are: robot models, bundled models, presets and launch files, and what is measured on this machine."""

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


def cache_dir() -> Path | None:
    """Returns the directory for what can be made again, by the XDG base directory specification; it may not exist.

    None if neither ``XDG_CACHE_HOME`` nor a home directory is known.
    """
    directory = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if directory.is_absolute():
        return directory / PACKAGE
    try:
        return Path.home() / ".cache" / PACKAGE
    except RuntimeError:
        return None
