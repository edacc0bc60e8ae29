# SPDX-License-Identifier: Apache-2.0
"""setuptools' build backend, with the build requirements read from ``requirements/``."""

import os
from pathlib import Path

from setuptools.build_meta import (
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parents[1]


def pins(*names: str) -> list[str]:
    """Returns the requirements of ``requirements/<name>.txt``, ``{distro}`` standing for ``ROS_DISTRO`` (or jazzy)."""
    distro = os.environ.get("ROS_DISTRO") or "jazzy"
    lines: list[str] = []
    for name in names:
        lines += (ROOT / "requirements" / f"{name.format(distro=distro)}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def get_requires_for_build_wheel(config_settings: dict[str, str] | None = None) -> list[str]:  # noqa: ARG001 - PEP 517
    """Returns what compiles the interfaces, transitive pins included."""
    return pins("ros-{distro}", "build-{distro}", "constraints-{distro}")


def get_requires_for_build_editable(config_settings: dict[str, str] | None = None) -> list[str]:  # noqa: ARG001
    """Refuses: an editable install would hide that the interfaces did not compile."""
    raise SystemExit("llm_planner has no editable install; `make setup` links .venv to this checkout instead")


build_editable = get_requires_for_build_editable  # pip asks for the requirements first, and is told why not
