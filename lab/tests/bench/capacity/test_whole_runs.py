# SPDX-License-Identifier: Apache-2.0
"""Whole runs of a simulated engine take what its profile says, and make a table that can be read."""

import random
from dataclasses import replace

import pytest

from llm_planner.core.config import EngineConfig, PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.step import SchedulerOutput
from llm_planner.prediction.profile import Chunk, find_profile
from llm_planner.prediction.throughput.table import read_table, write_table
from llm_planner_lab.bench import planner_profile
from llm_planner_lab.bench.capacity.whole_runs import measure_runs, measure_table, run_s
from llm_planner_lab.simulation.backend import SimulatedBackend

TRUTH = find_profile("llama3-8b-rtx4090")


def backend(num_tokens=10_000):
    return SimulatedBackend(TRUTH, lambda _request_id: num_tokens)


def expected_s(length, batch):
    prompts = TRUTH.step_s([Chunk(length, 0)] * batch)
    return prompts + sum(TRUTH.step_s([Chunk(1, length + n)] * batch) for n in range(length - 1))


@pytest.mark.parametrize(("length", "batch"), [(32, 1), (32, 4), (64, 3)])
def test_a_run_is_its_prompts_and_its_steps(length, batch):
    assert run_s(backend(), length, batch, random.Random(0)) == pytest.approx(expected_s(length, batch), rel=1e-6)


def test_sequences_that_end_early_are_replaced_and_their_prompts_not_counted():
    assert run_s(backend(num_tokens=10), 32, 2, random.Random(0)) == pytest.approx(expected_s(32, 2), rel=0.1)


def test_runs_make_a_table(tmp_path):
    runs = measure_runs(backend(), "llm_planner", lengths=(32, 64), batch_sizes=(1, 4))
    assert [(m.length_tokens, m.batch_size) for m in runs] == [(32, 1), (32, 4), (64, 1), (64, 4)]
    path = tmp_path / "mine.csv"
    write_table(runs, path)
    assert [m.workload for m in read_table(path)] == [m.workload for m in runs]
    for m in runs:
        num_tokens = 2 * m.length_tokens * m.batch_size
        assert m.throughput_tokens_per_s == pytest.approx(num_tokens / m.latency_s)


def test_what_does_not_fit_is_left_out():
    assert not measure_runs(backend(), "llm_planner", lengths=(32, TRUTH.max_model_len), batch_sizes=(1,))[1:]


class InFlight:
    """A simulated engine that hands out what a step brought with the next call only, as vLLM does."""

    def __init__(self):
        self.engine = backend()
        self.info = replace(self.engine.info, keeps_kv=True)
        self.owed = None
        self.num_closed = 0

    def execute(self, scheduled):
        due = self.owed
        self.owed = None
        if scheduled.num_scheduled_tokens and due is None:
            output = self.engine.execute(scheduled)
            self.owed = replace(output, step=scheduled)
            return replace(output, token_ids={}, finished={}, duration_s=0.0, step=SchedulerOutput())
        if due is None:
            self.engine.execute(scheduled)
        return due or replace(self.engine.execute(SchedulerOutput()), duration_s=0.0)

    def close(self):
        self.num_closed += 1


def test_the_table_is_of_the_engine_that_is_asked_for(monkeypatch):
    started, engine = [], InFlight()

    def build_engine(config):
        started.append(config)
        return engine

    monkeypatch.setattr(planner_profile, "build_engine", build_engine)
    chosen = EngineConfig(tensor_parallel=2, pipeline_stages=2)
    config = PlannerConfig(backend="vllm", engine=chosen)
    runs = measure_table(config)
    assert started == [replace(config, engine=replace(chosen, lookahead="off"))]
    assert engine.num_closed == 1
    assert {(run.combination.framework, run.combination.num_devices) for run in runs} == {("vLLM", 4)}
    one = next(run for run in runs if (run.length_tokens, run.batch_size) == (32, 4))
    assert one.latency_s == pytest.approx(expected_s(32, 4), rel=1e-6)


def test_a_server_has_no_table():
    with pytest.raises(PlannerError, match="openai cannot be measured") as caught:
        measure_table(PlannerConfig(backend="openai"))
    assert caught.value.code is ErrorCode.INVALID_CONFIG
