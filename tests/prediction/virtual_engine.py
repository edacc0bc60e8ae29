# SPDX-License-Identifier: Apache-2.0
"""An engine in virtual time whose steps take exactly what a profile says."""

from dataclasses import replace

from llm_planner.core.interfaces import BackendInfo
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.prediction.profile import Chunk, MoveCost, find_profile
from llm_planner.robots.timing import Parameter, Source


def number(value):
    return Parameter(value=value, source=Source.ASSUMED)


TRUTH = replace(
    find_profile("planner-small-cpu"), evict=MoveCost(constant_s=number(0.002), per_token_s=number(1e-5)), capacity=None
)
INFO = BackendInfo(
    model=TRUTH.model,
    num_kv_blocks=1024,
    block_size=16,
    max_model_len=4096,
    can_offload=True,
    can_evict=True,
    device=TRUTH.device,
)


def slower(times):
    """Returns the truth of an engine that takes ``times`` as long for everything."""

    def scaled(cost):
        return replace(cost, **{name: number(times * getattr(cost, name).value) for name in cost.__slots__})

    return replace(TRUTH, prefill=scaled(TRUTH.prefill), decode=scaled(TRUTH.decode), evict=scaled(TRUTH.evict))


class VirtualEngine:
    """Also the clock that its steps move on.

    Args:
        truth: What steps take.
        num_forced: Tokens that each generated token forces behind it.
        failing: Number of the sequence that fails.
    """

    def __init__(self, truth=TRUTH, info=INFO, num_forced=0, failing=None):
        self.truth, self.info, self.num_forced, self.failing = truth, info, num_forced, failing
        self.lengths, self.uncomputed, self.released, self.steps = {}, {}, set(), []
        self.now = 100.0

    def now_s(self):
        return self.now

    def load_prefix(self, prefix_id, token_ids, adapter=None):
        return 0

    def close(self):
        pass

    def execute(self, scheduled):
        self.steps.append(scheduled)
        for name in scheduled.release:
            self.lengths.pop(name, None)
            self.released.add(name)
        duration_s = 0.0
        for name in scheduled.evict:
            duration_s += self.truth.evict.time_s(self.lengths[name])
        for name in scheduled.offload + scheduled.restore:
            duration_s += self.truth.resume.time_s(self.lengths[name])
        for sequence in scheduled.new:
            name = sequence.request_id
            self.lengths[name], self.uncomputed[name] = 0, len(sequence.prompt_token_ids)
        chunks, token_ids = [], {}
        for name, count in scheduled.num_scheduled_tokens.items():
            assert 1 <= count <= self.uncomputed[name]
            chunks.append(Chunk(count, self.lengths[name]))
            self.lengths[name] += count
            self.uncomputed[name] -= count
            if not self.uncomputed[name]:
                self.uncomputed[name] = 1 + self.num_forced
                token_ids[name] = (7,) * self.uncomputed[name]
        duration_s += self.truth.step_s(chunks)
        self.now += duration_s
        failed = {name: "it broke" for name in token_ids if name == f"probe-{self.failing}"}
        return StepOutput(token_ids=token_ids, duration_s=duration_s, failed=failed)


class StepsInFlight(VirtualEngine):
    """Gives a step back with the next call, as vLLM does on a GPU."""

    def __init__(self, truth=TRUTH):
        info = replace(INFO, can_offload=False, can_evict=False, keeps_kv=True)
        super().__init__(truth, info)
        self._in_flight = None

    def execute(self, scheduled):
        before, self._in_flight = self._in_flight, None
        if not scheduled.num_scheduled_tokens:
            return super().execute(scheduled)
        if before is not None:
            return before
        ran = SchedulerOutput(num_scheduled_tokens=scheduled.num_scheduled_tokens)
        self._in_flight = replace(super().execute(scheduled), step=ran)
        return StepOutput(step=SchedulerOutput())
