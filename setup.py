# SPDX-License-Identifier: Apache-2.0
"""Build with pip, where no ROS 2 is installed. colcon never runs this file: package.xml says ament_cmake."""

import os
import subprocess
import sys
from pathlib import Path

import rosidl_adapter
from build_backend import ROOT, pins
from setuptools import Distribution, find_packages, setup
from setuptools.command.build_py import build_py


class BuildInterfaces(build_py):
    """Also compiles the interfaces, and ships what CMake installs as data files."""

    def run(self) -> None:
        super().run()
        temporary = Path(self.get_finalized_command("build").build_temp).resolve()
        build, stage = temporary / "ros", temporary / "stage"
        site_packages = Path(rosidl_adapter.__file__).resolve().parents[1]
        prefix = str(site_packages.parents[2])  # the environment that pip made for this build
        environment = os.environ | {
            "AMENT_PREFIX_PATH": prefix,
            "CMAKE_PREFIX_PATH": prefix,
            "PYTHONPATH": str(site_packages),
        }
        configure = [
            *("cmake", "--fresh", "-S", str(ROOT), "-B", str(build), "-G", "Ninja"),  # pip's environment moves
            *("-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF", "-DLLM_PLANNER_PIP=ON"),
            f"-DCMAKE_INSTALL_PREFIX={stage}",
            f"-DPython3_EXECUTABLE={sys.executable}",
            f"-DCMAKE_PROJECT_INCLUDE={ROOT / 'cmake' / 'pip_ros_fixups.cmake'}",
        ]
        for command in (configure, ["cmake", "--build", str(build), "--target", "install"]):
            subprocess.run(command, env=environment, check=True)
        self.distribution.data_files = _data_files(stage)


def _data_files(stage: Path) -> list[tuple[str, list[str]]]:
    """Returns (directory, files) pairs, without headers and what setuptools itself installs."""
    files: dict[str, list[str]] = {}
    for path in sorted(stage.rglob("*")):
        relative = path.relative_to(stage)
        is_package_root = relative.parts[-2:] == ("llm_planner", "__init__.py")
        is_superfluous = relative.parts[0] == "include" or path.parent.suffix == ".egg-info" or path.suffix == ".pyc"
        if path.is_file() and not is_package_root and not is_superfluous:
            files.setdefault(str(relative.parent), []).append(str(path))
    return list(files.items())


class BinaryDistribution(Distribution):
    """The wheel holds compiled interfaces: it is for one platform and one Python."""

    def has_ext_modules(self) -> bool:
        return True


setup(
    packages=find_packages(include=["llm_planner", "llm_planner.*"]),
    install_requires=pins("ros-{distro}", "runtime"),
    extras_require={"plots": pins("plots"), "sim": pins("sim"), "mujoco": pins("sim")},
    distclass=BinaryDistribution,
    cmdclass={"build_py": BuildInterfaces},
)
