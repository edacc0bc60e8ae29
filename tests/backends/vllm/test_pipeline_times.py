# SPDX-License-Identifier: Apache-2.0
"""Times of a pipeline, measured on one whose times are known: stages in a row, with links between them."""

from types import SimpleNamespace

import pytest

from llm_planner.backends.vllm.pipeline import measure_times
from llm_planner.core.errors import PlannerError
from llm_planner.core.step import StepOutput

HOST_S, BASE_S, PER_TOKEN_S = 0.002, 0.003, 0.00005


class KnownPipeline:
    """Stages and links in virtual time, each first come, first served; a message occupies its link, then arrives."""

    info = SimpleNamespace(max_model_len=4096)

    def __init__(self, num_stages, link_per_token_s=0.0, latency_s=0.0):
        self._num_stages = num_stages
        self._link_per_token_s, self._latency_s = link_per_token_s, latency_s
        self._free_at_s = [0.0] * (2 * num_stages - 1)
        self._in_flight = []
        self._time_s = 0.0

    def now_s(self):
        return self._time_s

    def compute_s(self, stage, num_tokens):
        return BASE_S + PER_TOKEN_S * num_tokens * (1 if stage == 0 else 0.8)

    def execute(self, scheduled):
        for sequence in scheduled.new:
            self._in_flight.append((self._way(len(sequence.prompt_token_ids)), sequence.request_id))
        if scheduled.new or not self._in_flight:
            return StepOutput()
        self._time_s, name = self._in_flight.pop(0)
        return StepOutput(token_ids={name: (1,)})

    def _way(self, num_tokens):
        """Returns when a micro-batch that comes now is through."""
        at_s = self._time_s
        for part in range(2 * self._num_stages - 1):
            stage, is_link = divmod(part, 2)
            busy_s = self._link_per_token_s * num_tokens if is_link else HOST_S + self.compute_s(stage, num_tokens)
            self._free_at_s[part] = at_s = max(at_s, self._free_at_s[part]) + busy_s
            at_s += self._latency_s * is_link
        return at_s


@pytest.mark.parametrize("num_stages", [2, 3])
@pytest.mark.parametrize(
    ("link_per_token_s", "latency_s"), [(0.0, 0.0), (0.00002, 0.001), (0.0004, 0.0), (0.0008, 0.005)]
)
def test_stages_and_links_are_told_apart_whichever_is_slower(num_stages, link_per_token_s, latency_s):
    known = KnownPipeline(num_stages, link_per_token_s, latency_s)
    times = measure_times(known, num_stages, known.compute_s, clock=known)
    for num_tokens in (16, 256):
        stage_s = HOST_S + known.compute_s(0, num_tokens)
        assert times.computation_s(num_tokens) == pytest.approx(stage_s, rel=0.05)
    assert times.link_per_token_s == pytest.approx(link_per_token_s, rel=0.1, abs=2e-5)
    assert times.link_latency_s == pytest.approx(latency_s, rel=0.1, abs=5e-4)


class Refusing(KnownPipeline):
    """Takes no prompt of more than 100 tokens."""

    def execute(self, scheduled):
        too_long = {s.request_id: "too long" for s in scheduled.new if len(s.prompt_token_ids) > 100}
        return StepOutput(failed=too_long) if too_long else super().execute(scheduled)


def test_a_pipeline_that_refuses_what_is_measured_is_not_waited_for():
    pipeline = Refusing(2)
    with pytest.raises(PlannerError, match="cannot be measured: too long"):
        measure_times(pipeline, 2, pipeline.compute_s, pipeline)


def test_no_prompt_is_measured_that_the_engine_cannot_take():
    pipeline = Refusing(2)
    pipeline.info = SimpleNamespace(max_model_len=100)
    assert measure_times(pipeline, 2, pipeline.compute_s, pipeline)
