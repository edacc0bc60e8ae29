# SPDX-License-Identifier: Apache-2.0
"""Where ``llm-planner profile`` leaves what it has measured, and what the engine is started with."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from llm_planner.cli.main import app
from llm_planner.prediction.profile import find_profile, load_profile
from llm_planner.prediction.samples import StepKind, StepSample
from llm_planner_lab.bench.planner_profile import Profiled
from llm_planner_lab.cli import profile as command


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Returns what runs the command with options, and the configuration that was measured."""
    measured = replace(find_profile("planner-small-cpu"), name="mine", measured_at="2026-01-02T03:04:05+00:00")
    samples = [
        StepSample(kind, point, 1, num_tokens, 32 * point, 0.001 + 1e-6 * 32 * point)
        for point in range(1, 9)
        for kind, num_tokens in ((StepKind.PREFILL, 32 * point), (StepKind.DECODE, 1))
        for _ in range(2)
    ]
    seen = []

    def profile_planner(config, name, repeats, note, own_file=tmp_path / "cache" / "own.yaml"):
        seen.append((config, name))
        return Profiled(measured, samples, own_file)

    monkeypatch.setattr(command, "profile_planner", profile_planner)

    def run(*arguments):
        result = CliRunner().invoke(app, ["profile", *arguments])
        assert result.exit_code == 0, result.output
        return seen[-1]

    run.profile, run.samples = measured, samples
    return run


def test_with_a_path_profile_and_steps_are_written_there(run, tmp_path):
    config, name = run(str(tmp_path / "mine.yaml"))
    assert (config.engine.num_threads, name) == (1, "mine")
    assert load_profile(tmp_path / "mine.yaml") == run.profile
    lines = (tmp_path / "mine.samples.csv").read_text().splitlines()
    assert lines[0] == "kind,point,num_seqs,num_tokens,kv_tokens,duration_s"
    assert lines[1] == "prefill,1,1,32,32,0.001032"
    assert len(lines) == 1 + len(run.samples)
    assert not (tmp_path / "cache").exists()


def test_without_a_path_it_becomes_the_planners_own_as_the_planner_is_configured(run, tmp_path):
    (tmp_path / "planner.yaml").write_text("engine: {num_threads: 3}\n")
    config, name = run("--config", str(tmp_path / "planner.yaml"))
    assert (config.engine.num_threads, name) == (3, None)
    assert load_profile(tmp_path / "cache" / "own.yaml") == run.profile
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["own.yaml"]
