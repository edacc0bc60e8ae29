# SPDX-License-Identifier: Apache-2.0
"""Evictions under the real scheduler, in too little memory: every request writes what it writes alone."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.eviction import Eviction, num_removed_tokens
from llm_planner.core.request import PlanRequest
from llm_planner.core.step import SamplingParams, SchedulerOutput, Sequence
from llm_planner.engine.backend import TorchBackend
from llm_planner.engine.kv_cache import KVCache
from llm_planner.scheduling.generation import Generation, GenerationState
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from tests.engine.builders import save_model
from tests.engine.eviction.builders import METHODS, PROMPT, evicted
from tests.scheduling.builders import make_segment, make_tracker

BLOCK_SIZE = 4
NUM_BLOCKS = 44  # the longest request alone takes 31 of the 40 that the prefix leaves
MAX_TOKENS = 14
NUM_REQUESTS = 8
MAX_STEPS = 2_000  # a run takes some hundred
DURATIONS_S = (0.003,) * 30 + (20.0,)  # of steps; the machine may stand still in one
PREFIX = PROMPT[:16]
SAMPLED = SamplingParams(temperature=1.2, seed=5)
KINDS = (  # the sequence, how much of it is evicted, and how many tokens after the prompt
    (Sequence(request_id="", prompt_token_ids=PROMPT[:110], prefix_id="p", evictable=((16, 70),)), 0.3, 0),
    (Sequence(request_id="", prompt_token_ids=(*PREFIX, *PROMPT[40:90]), prefix_id="p"), 0.0, 0),
    (Sequence(request_id="", prompt_token_ids=PROMPT[20:100], evictable=((0, 80),), sampling=SAMPLED), 1.0, 0),
    (Sequence(request_id="", prompt_token_ids=(*PREFIX, *PROMPT[60:]), prefix_id="p", evictable=((20, 50),)), 0.2, 3),
    (Sequence(request_id="", prompt_token_ids=PROMPT[:40], evictable=((2, 9),)), 0.1, 1),
)


@pytest.fixture(scope="module", params=METHODS)
def method(request):
    return request.param


@pytest.fixture(scope="module")
def backends(method, tmp_path_factory):
    path = save_model(tmp_path_factory.mktemp("models") / "m", seed=11)
    options = {"num_kv_blocks": NUM_BLOCKS, "block_size": BLOCK_SIZE, "eviction_method": method}
    backends = {mode: TorchBackend(path, lookahead=mode, **options) for mode in ("off", "always")}
    for backend in backends.values():
        cache = backend._runner.cache
        cache.max_gathered_blocks, cache.min_shared_blocks = 40, 1  # every way to group a decode batch
        assert backend.load_prefix("p", PREFIX) == len(PREFIX)
    return backends


@pytest.fixture(scope="module")
def expected(backends):
    """Every kind of request alone, uninterrupted, in one chunk, without a shared prefix."""
    return [
        evicted(backends["off"], replace(sequence, request_id="r"), ratio, late_tokens=late, num_tokens=MAX_TOKENS)
        for sequence, ratio, late in KINDS
    ]


def lose_some(cache, rng, share):
    """Has this share of all moves of KV fail for want of memory."""

    def at_times(move):
        def moved(*arguments):
            if rng.random() < share:
                raise MemoryError
            return move(cache, *arguments)

        return moved

    cache.to_host, cache.from_host = at_times(KVCache.to_host), at_times(KVCache.from_host)


class Run:
    """Requests that come, are planned for in segments, and go, in front of a scheduler and an engine."""

    def __init__(self, backend, rng, expected, *, can_offload, num_host_blocks, lost_share, **config):
        self.backend, self.rng, self.expected = backend, rng, expected
        info = replace(backend.info, can_offload=can_offload, num_host_blocks=num_host_blocks)
        self.num_host_blocks = num_host_blocks
        lose_some(backend._runner.cache, rng, lost_share)
        self.scheduler = Scheduler(SchedulerConfig(**config), make_policy(config["policy"]), info)
        self.scheduler.ledger.pin_prefix("p", len(PREFIX))
        self.kinds = {}
        self.seen = Counter()
        self.now_s = 0.0
        self.num_steps = 0

    def add(self):
        kind, name = self.rng.randrange(len(KINDS)), f"r{len(self.kinds)}"
        sequence, ratio, late = KINDS[kind]
        cached = len(PREFIX) if sequence.prefix_id else 0
        sequence = replace(sequence, request_id=name, num_cached_tokens=cached)
        request = PlanRequest(request_id=name, robot_id=name, robot_model="tello", instruction="go")
        generation = Generation(
            request=request,
            sequence=sequence,
            arrival_s=self.now_s,
            execution=make_tracker(self.now_s),
            max_output_tokens=MAX_TOKENS,
        )
        removed = num_removed_tokens(sequence, ratio)
        if removed:
            after_tokens = len(sequence.prompt_token_ids) + late
            generation.eviction = Eviction(after_tokens=after_tokens, num_removed_tokens=removed)
        self.kinds[name] = kind
        self.scheduler.add(generation)

    def step(self):
        alive = {g.request_id: g for g in self.scheduler.generations}
        scheduled = self.scheduler.schedule(self.now_s)
        assert not self.scheduler.take_unschedulable()
        output = self.backend.execute(scheduled)
        self.seen["lost"] += len(output.lost)
        assert not output.failed, output.failed
        output = replace(output, duration_s=self.rng.choice(DURATIONS_S))
        self.now_s += output.duration_s
        self.num_steps += 1
        assert self.num_steps < MAX_STEPS, "starved"
        segments = {}
        for name in output.token_ids:
            if self.rng.random() < 0.2 and name not in output.finished:
                execution = alive[name].execution
                execution.deliver(make_segment(execution.num_delivered, self.rng.uniform(0.1, 3.0)), self.now_s)
                segments[name] = 1
        self.scheduler.update(scheduled, output, segments, self.now_s)
        assert output.free_kv_blocks == self.scheduler.ledger.free_blocks
        self.scheduler.check_integrity()
        self.backend.check_integrity()
        offloaded = [s.host_kv.shape[2] for s in self.backend._states.values() if s.is_offloaded]
        assert sum(offloaded) == self.scheduler.ledger.offloaded_blocks <= self.num_host_blocks
        for name, generation in alive.items():
            self.check(generation, is_finished=name in output.finished)
        self.count(scheduled, alive)

    def check(self, generation, *, is_finished):
        expected, written = self.expected[self.kinds[generation.request_id]], generation.output_token_ids
        assert written[:MAX_TOKENS] == expected[: len(written)]
        if is_finished or len(written) >= MAX_TOKENS:
            assert len(written) >= len(expected)
            self.scheduler.end(generation.request_id)

    def count(self, scheduled, alive):
        self.seen["evicted"] += len(scheduled.evict)
        self.seen["offloaded"] += len(scheduled.offload)
        for name in scheduled.release:
            generation = alive.get(name)
            if generation is not None and generation.state is GenerationState.WAITING:
                self.seen["preempted"] += 1
                self.seen["evicted and preempted"] += generation.eviction is not None

    def finish(self):
        while self.scheduler.next_wakeup_s(self.now_s) is not None:
            self.now_s = self.scheduler.next_wakeup_s(self.now_s)
            self.step()
        assert self.scheduler.ledger.free_blocks == NUM_BLOCKS - len(PREFIX) // BLOCK_SIZE


def test_everyone_writes_what_it_writes_alone(backends, expected):
    seen = Counter()

    @settings(max_examples=25, deadline=None)
    @given(
        seed=st.integers(0, 2**32 - 1),
        policy=st.sampled_from(["fcfs_segment", "edf_segment", "pud"]),
        lookahead=st.sampled_from(["off", "always"]),
        can_offload=st.booleans(),
        num_host_blocks=st.sampled_from((12, 30, NUM_BLOCKS)),
        lost_share=st.sampled_from((0.0, 0.5, 1.0)),
        max_num_seqs=st.integers(2, 6),
        max_num_batched_tokens=st.integers(8, 120),
    )
    def run(seed, lookahead, **options):
        rng = random.Random(seed)
        names = [f"r{index}" for index in range(NUM_REQUESTS)]
        backends[lookahead].execute(SchedulerOutput(release=tuple(names)))  # what a failed run has left
        life = Run(backends[lookahead], rng, expected, **options)
        for _ in names:
            life.add()
            for _ in range(rng.randint(0, 3)):
                life.step()
        life.finish()
        seen.update(life.seen)

    run()
    assert min(seen[what] for what in ("evicted", "offloaded", "lost", "preempted", "evicted and preempted")) > 0, seen
