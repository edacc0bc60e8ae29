# SPDX-License-Identifier: Apache-2.0
"""What several tokens per step bring on vLLM, cut short."""

import pytest

pytest.importorskip("vllm")

from llm_planner_lab.bench.steps import StepsBench, run_steps


def test_fewer_steps_for_the_same_plans():
    bench = StepsBench(
        backend="vllm",
        modes=("off", "always"),
        families=("evade_animal", "arm_put"),
        per_family=2,
        warm_up=2,
        threads=1,
    )
    document = run_steps(bench)
    assert "vLLM" in document["device"]
    assert document["same_plans"]
    figures = {mode: families["all"] for mode, families in document["modes"].items()}
    assert figures["off"]["steps_per_token"] == 1.0
    assert figures["always"]["steps_per_token"] <= 0.65
