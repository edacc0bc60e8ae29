# SPDX-License-Identifier: Apache-2.0
"""Of which code a figure is."""

import subprocess
from collections.abc import Iterable

from llm_planner.core.resources import share_dir


def commit() -> str:
    """Returns the commit of the source checkout, with ``+`` if it was changed since; empty outside of one."""
    try:
        commands: Iterable[list[str]] = (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "-uno"])
        revision, changes = (
            subprocess.run(["git", *c], cwd=share_dir(), capture_output=True, text=True, check=True, timeout=10).stdout
            for c in commands
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return revision.strip() + ("+" if changes.strip() else "")
