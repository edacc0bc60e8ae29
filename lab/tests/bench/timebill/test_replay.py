# SPDX-License-Identifier: Apache-2.0
"""Replays: what is the same is measured once and takes the same time."""

from itertools import count

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.step import SchedulerOutput, Sequence
from llm_planner.serving.fake import FakeBackend, FakeTiming
from llm_planner_lab.bench.timebill.replay import ReplayedEngine

PLAN = "a(1);b(2);c(3);"


class Drifting(FakeBackend):
    """Every step takes longer than the one before."""

    def execute(self, scheduled):
        number = next(self.numbers)
        self.timing = FakeTiming(step_s=0.001 * number, prompt_token_s=0.0, decode_s=0.0)
        return super().execute(scheduled)

    @property
    def numbers(self):
        return NUMBERS


NUMBERS = count()


@pytest.fixture
def engine():
    return ReplayedEngine(Drifting(plans={"go": PLAN}, num_kv_blocks=64), max_tokens=32)


def sequence(engine, request_id="r"):
    ids = tuple(engine.engine.tokenizer.encode("please go " + "and look " * 30))
    return Sequence(request_id=request_id, prompt_token_ids=ids, evictable=((0, len(ids)),))


def play(engine, request_id, evict_at=None):
    """Returns the steps of a generation, driven as a scheduler does."""
    new = sequence(engine, request_id)
    steps = [engine.execute(SchedulerOutput(new=(new,), num_scheduled_tokens={request_id: len(new.prompt_token_ids)}))]
    while request_id not in steps[-1].finished:
        evict = {request_id: 16} if evict_at == len(steps) else {}
        steps.append(engine.execute(SchedulerOutput(evict=evict, num_scheduled_tokens={request_id: 1})))
    engine.execute(SchedulerOutput(release=(request_id,)))
    return steps


def tokens(steps):
    return [token_id for step in steps for ids in step.token_ids.values() for token_id in ids]


def durations_s(steps):
    return [step.duration_s for step in steps]


def test_the_same_generation_is_measured_once_and_takes_the_same_time(engine):
    one, two = play(engine, "a"), play(engine, "b")
    assert engine.engine.tokenizer.decode(tokens(one)) == PLAN
    assert (tokens(one), durations_s(one)) == (tokens(two), durations_s(two))
    assert engine.num_measured == 1


def test_up_to_an_eviction_it_is_the_generation_without(engine):
    plain, evicted = play(engine, "a"), play(engine, "b", evict_at=2)
    assert durations_s(plain)[:2] == durations_s(evicted)[:2]
    assert durations_s(plain)[2:] != durations_s(evicted)[2:]
    assert engine.num_measured == 2


def test_free_blocks_are_those_of_an_engine_that_runs_it(engine):
    live = FakeBackend(plans={"go": PLAN}, num_kv_blocks=64)
    live_engine = ReplayedEngine(live, max_tokens=32)
    expected = [step.free_kv_blocks for step in play_live(live, sequence(live_engine))]
    assert [step.free_kv_blocks for step in play(engine, "a", evict_at=1)] == expected


def play_live(backend, new):
    steps = [backend.execute(SchedulerOutput(new=(new,), num_scheduled_tokens={"r": len(new.prompt_token_ids)}))]
    while "r" not in steps[-1].finished:
        evict = {"r": 16} if len(steps) == 1 else {}
        steps.append(backend.execute(SchedulerOutput(evict=evict, num_scheduled_tokens={"r": 1})))
    return steps


def test_two_at_once_are_no_replay(engine):
    play(engine, "a")
    both = {"a": 1, "b": 1}
    new = (sequence(engine, "a"), sequence(engine, "b"))
    with pytest.raises(PlannerError) as caught:
        engine.execute(SchedulerOutput(new=new, num_scheduled_tokens=both))
    assert caught.value.code is ErrorCode.ENGINE_FAILED


def test_a_warm_up_can_be_forgotten(engine):
    first_s = durations_s(play(engine, "a"))
    engine.forget()
    assert durations_s(play(engine, "a")) != first_s
    assert engine.num_measured == 1
