# SPDX-License-Identifier: Apache-2.0
"""The fence within the laboratory: simulations and tasks load no ROS, torch or vLLM."""

import pytest

from tests.test_imports import FORBIDDEN, loaded_by, modules_of, top_level


@pytest.mark.parametrize("package", ["simulation", "tasks"])
def test_pure_package_loads_nothing_heavy(package):
    loaded = loaded_by(*modules_of(package, "lab/llm_planner_lab"))
    assert f"llm_planner_lab.{package}" in loaded
    assert not top_level(loaded) & FORBIDDEN
