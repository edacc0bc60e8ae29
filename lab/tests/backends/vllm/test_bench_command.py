# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench vllm`` where vLLM is missing."""

from typer.testing import CliRunner

from llm_planner.backends.vllm import contract
from llm_planner.core.errors import PlannerError
from llm_planner_lab.cli.bench import app as bench_app


def test_the_benchmark_says_so_too(monkeypatch):
    monkeypatch.setattr(contract, "installed_version", lambda: None)
    result = CliRunner().invoke(bench_app, ["vllm"])
    assert isinstance(result.exception, PlannerError)
    assert "make setup-vllm" in result.exception.message
