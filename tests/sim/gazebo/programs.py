# SPDX-License-Identifier: Apache-2.0
"""Small C++ programs on Gazebo's libraries, compiled where these are: Debian's packages, or the same unpacked."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PREFIX = Path(os.environ.get("LLM_PLANNER_SDFORMAT_PREFIX", "/usr"))


def libraries() -> Path:
    """Returns the directory of the libraries; skips the test without libsdformat."""
    found = sorted(Path(PREFIX, "lib").rglob("libsdformat*.so"))
    if not found:
        pytest.skip("libsdformat is not installed (Debian: libsdformat-dev)")
    return found[0].parent


def compiled(source: str, directory: Path, *names: str) -> Path:
    """Returns a program of this folder, compiled; skips the test where that cannot be.

    Args:
        source: File name.
        directory: Where the program goes.
        names: Libraries that it needs besides libsdformat and libignition-math.
    """
    compiler, place = shutil.which("c++"), libraries()
    headers = sorted(Path(PREFIX, "include").glob("sdformat-*"))
    if not headers or compiler is None:
        pytest.skip("libsdformat-dev is not installed, or there is no C++ compiler")
    number = headers[-1].name.removeprefix("sdformat-").partition(".")[0]
    ignition = sorted(Path(PREFIX, "include/ignition").glob("*"))
    includes = [f"-I{path}" for path in (headers[-1], *ignition, PREFIX / "include/eigen3")]
    target = directory / Path(source).stem
    linked = [f"-l{name}" for name in (f"sdformat{number}", "ignition-math6", *names)]
    options = [f"-L{place}", *linked, f"-Wl,-rpath,{place}", "-Wl,--unresolved-symbols=ignore-in-shared-libs"]
    command = [compiler, "-std=c++17", *includes, str(Path(__file__).with_name(source)), "-o", str(target)]
    subprocess.run([*command, *options], check=True, timeout=600)
    return target


def environment() -> dict[str, str]:
    """Returns the environment in which such a program finds schemas and libraries."""
    schemas = next(iter(sorted(Path(PREFIX, "share").glob("sdformat*"))), None)
    return {**os.environ, "SDF_PATH": str(schemas), "LD_LIBRARY_PATH": str(libraries())}
