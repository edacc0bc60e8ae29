# SPDX-License-Identifier: Apache-2.0
"""Decode steps against the share of KV that was evicted: who is timed when, and what counts."""

import pytest

from llm_planner.core.step import FinishReason, SchedulerOutput, StepOutput
from llm_planner.core.step import Sequence as Generated
from llm_planner_lab.bench import eviction_time
from llm_planner_lab.bench.eviction_time import _steps_s, time_steps
from tests.engine.builders import save_model


def test_ratios_take_turns_and_a_first_round_warms_up(tmp_path, monkeypatch):
    removed, seconds = [], iter([9.0, 9.0, *(0.001, 0.002), *(0.003, 0.004)])

    def steps_s(_backend, _sequences, num_removed, num_steps):
        removed.append(num_removed)
        one_s = next(seconds)
        return [one_s + 0.5, *[one_s] * num_steps]

    monkeypatch.setattr(eviction_time, "_steps_s", steps_s)
    model = save_model(tmp_path / "model")
    rows = time_steps(model, "streaming", prompt_tokens=120, num_seqs=1, ratios=[0.0, 0.5], rounds=2)
    assert removed == [0, 60, 60, 0, 0, 60]
    assert [row.decode_ms for row in rows] == pytest.approx([2.5, 2.5])
    assert [row.evict_ms for row in rows] == pytest.approx([500.0, 500.0])


def test_a_sequence_that_the_model_ends_goes_on():
    ran: list[SchedulerOutput] = []

    class Ending:
        def execute(self, scheduled):
            ran.append(scheduled)
            return StepOutput(finished={"b": FinishReason.STOP} if len(ran) in {1, 3} else {}, duration_s=len(ran))

    sequences = [Generated(request_id=name, prompt_token_ids=(7, 8)) for name in "ab"]
    assert _steps_s(Ending(), sequences, 1, 3) == [2, 3, 4, 5]
    assert [step.insert for step in ran] == [{}, {"b": (7,)}, {}, {"b": (7,)}, {}]
    assert [dict(step.evict) for step in ran] == [{}, {"a": 1, "b": 1}, {}, {}, {}]
    assert all(step.num_scheduled_tokens == {"a": 1, "b": 1} for step in ran[1:])
