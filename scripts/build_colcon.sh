#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds this tree with colcon against the ROS 2 wheels of the virtual environment (build/ install/ log/), then imports
# the interfaces and the code from install/. Where ROS 2 is installed, a plain `colcon build` does the same.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=$(realpath -m "${VENV:-.venv}")
unset PYTHONPATH
export AMENT_PREFIX_PATH=$venv CMAKE_PREFIX_PATH=$venv PATH=$venv/bin:$PATH

"$venv/bin/colcon" build --base-paths . --event-handlers console_cohesion- --cmake-args -G Ninja \
  -DBUILD_TESTING=OFF "-DPython3_EXECUTABLE=$venv/bin/python" "-DCMAKE_PROJECT_INCLUDE=$PWD/cmake/pip_ros_fixups.cmake"

set +u # colcon's script reads unset variables; and it does not quote the interpreter, so no path with spaces
COLCON_PYTHON_EXECUTABLE=$(realpath --no-symlinks --relative-to=. "$venv/bin/python")
export COLCON_PYTHON_EXECUTABLE
source install/local_setup.bash
set -u
# From another directory, and with only the files under install/ to find: neither this checkout nor the development
# install of the virtual environment may answer.
cd /
exec "$venv/bin/python" - "$OLDPWD" <<'PYTHON'
import sys
from pathlib import Path

checkout = Path(sys.argv[1]).resolve()
installed = checkout / "install"
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != checkout]

import llm_planner
import llm_planner.core.errors
import llm_planner.msg
from llm_planner.action import PlanTask
from llm_planner.core.resources import share_dir
from rclpy.type_support import check_for_type_support

for path in (llm_planner.__file__, llm_planner.core.errors.__file__, llm_planner.msg.__file__, share_dir()):
    if not Path(path).resolve().is_relative_to(installed):
        sys.exit(f"colcon: {path} is not from {installed}")
check_for_type_support(PlanTask)
print(f"colcon: llm_planner {llm_planner.__version__}, interfaces, code and data, imported from {installed}")
PYTHON
