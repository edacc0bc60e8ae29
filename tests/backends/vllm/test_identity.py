# SPDX-License-Identifier: Apache-2.0
"""However a request is suspended, passed over or robbed of its KV: the same tokens as without all that."""

import random

import pytest

pytest.importorskip("vllm")

from llm_planner.core.step import SchedulerOutput
from tests.backends.vllm.fake_core import SlowMemory, next_token, with_steps_in_flight
from tests.engine.builders import PROMPT, sequence

MAX_TOKENS = 40
GRAMMAR = "start: (CALL)+\nCALL: /m[fbud]\\((-?[1-9][0-9]{0,2})\\);/\n"


def make_sequences(count, grammar=None):
    """Returns sequences whose prompts differ in content and length; every other one keeps to a grammar."""
    return [
        sequence(f"s{i}", prompt=(*PROMPT[i:], *PROMPT[: 7 * i]), grammar=grammar if i % 2 else None)
        for i in range(count)
    ]


class Driver:
    """Runs sequences step by step, as a scheduler would, and keeps their tokens."""

    def __init__(self, backend, sequences):
        self.backend = backend
        self.new = {s.request_id: s for s in sequences}
        self.num_prompt = {s.request_id: len(s.prompt_token_ids) for s in sequences}
        self.tokens = {s.request_id: [] for s in sequences}
        self.computed = dict.fromkeys(self.tokens, 0)
        self.drafted = dict.fromkeys(self.tokens, 0)
        self.unfinished = list(self.tokens)
        self.ended = []
        self.num_steps = self.num_drafted = self.num_rejected = 0

    def step(self, named, suspended=()):
        named = [name for name in named if name in self.unfinished]
        new = tuple(self.new.pop(name) for name in named if name in self.new)
        left = {name: self.num_prompt[name] + len(self.tokens[name]) - self.computed[name] for name in named}
        release, self.ended = tuple(self.ended), []
        num_tokens = {name: max(1, number) + self.drafted[name] for name, number in left.items()}
        output = self.backend.execute(
            SchedulerOutput(release=release, new=new, num_scheduled_tokens=num_tokens, suspended=tuple(suspended))
        )
        assert not output.failed, output.failed
        assert not set(output.token_ids) & set(suspended)
        self.computed.update(output.num_computed_tokens)
        self.drafted.update(output.num_draft_tokens)
        self.num_steps += len(output.token_ids)
        self.num_drafted += sum(output.num_draft_tokens.values())
        self.num_rejected += sum(output.num_rejected_tokens.values())
        for name, token_ids in output.token_ids.items():
            self.tokens[name] = [*self.tokens[name], *token_ids][:MAX_TOKENS]
        for name in list(self.unfinished):
            if name in output.finished or len(self.tokens[name]) >= MAX_TOKENS:
                self.unfinished.remove(name)
                self.ended.append(name)
        return output


def uninterrupted(backend, sequences):
    """Returns the tokens of each sequence by itself."""
    tokens = {}
    for one in sequences:
        driver = Driver(backend, [one])
        while driver.unfinished:
            driver.step(driver.unfinished)
        driver.step([])
        tokens |= driver.tokens
    return tokens


def interrupted(backend, sequences, seed):
    """Returns the tokens of sequences that are suspended and passed over at random, with how often they were."""
    rng, driver, suspended, num_pauses = random.Random(seed), Driver(backend, sequences), {}, 0
    for now in range(5000):
        if not driver.unfinished:
            driver.step([])
            return driver.tokens, num_pauses
        suspended = {name: until for name, until in suspended.items() if until > now and name in driver.unfinished}
        for name in driver.unfinished:
            if driver.tokens[name] and name not in suspended and rng.random() < 0.15:
                suspended[name] = now + rng.randint(1, 25)
                num_pauses += 1
        awake = [name for name in driver.unfinished if name not in suspended]
        named = rng.sample(awake, rng.randint(0, len(awake)))
        driver.step(named, sorted(suspended, key=suspended.get, reverse=True))
    raise AssertionError(f"unfinished: {driver.unfinished}")


def fake_tokens(prompt):
    """Returns what the fake core writes behind a prompt."""
    known = list(prompt)
    while len(known) < len(prompt) + MAX_TOKENS:
        known.append(next_token(known))
    return known[len(prompt) :]


@pytest.mark.parametrize("seed", [0, 1])
def test_suspended_at_random(backend, seed):
    sequences = make_sequences(6, GRAMMAR)
    expected = uninterrupted(backend, sequences)
    tokens, num_pauses = interrupted(backend, sequences, seed)
    assert tokens == expected
    assert num_pauses > 20


def test_sampled_tokens_are_the_same_too(backend):
    sampling = {"sampling": type(sequence().sampling)(temperature=1.0, seed=5)}
    sequences = [sequence(f"s{i}", prompt=PROMPT[i:], **sampling) for i in range(3)]
    assert interrupted(backend, sequences, 3)[0] == uninterrupted(backend, sequences)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("num_blocks", [64, 20])
def test_with_steps_in_flight_and_little_memory(backend, depth, num_blocks):
    fake = with_steps_in_flight(backend, depth)
    scheduler = fake._scheduler
    pool = scheduler.kv_cache_manager.block_pool
    taken = pool.get_new_blocks(64 - num_blocks) if num_blocks < 64 else []
    sequences = make_sequences(8)
    tokens, num_pauses = interrupted(fake, sequences, seed=depth)
    assert tokens == {one.request_id: fake_tokens(one.prompt_token_ids) for one in sequences}
    assert num_pauses > 20
    assert (scheduler.num_given_up > 0) == (num_blocks == 20)
    pool.free_blocks(taken)
    assert not scheduler.requests
    assert scheduler.num_free_blocks == 64


@pytest.mark.parametrize("depth", [1, 2])
def test_kv_that_comes_back_from_elsewhere(backend, depth):
    """A request whose KV is on its way holds blocks and does not run; if it is not named, it does not either."""
    fake = with_steps_in_flight(backend, depth)
    scheduler = fake._scheduler
    memory = scheduler.connector = SlowMemory(scheduler, num_steps=5)
    pool = scheduler.kv_cache_manager.block_pool
    taken = pool.get_new_blocks(44)
    sequences = make_sequences(8)
    tokens, num_pauses = interrupted(fake, sequences, seed=depth)
    assert tokens == {one.request_id: fake_tokens(one.prompt_token_ids) for one in sequences}
    assert min(num_pauses, memory.num_loads) > 5
    pool.free_blocks(taken)
    assert not scheduler.requests
    assert scheduler.num_free_blocks == 64


def test_a_request_whose_kv_is_on_its_way_takes_no_room_from_others(backend):
    fake = with_steps_in_flight(backend, 1)
    scheduler = fake._scheduler
    scheduler.connector = SlowMemory(scheduler, num_steps=6)
    driver = Driver(fake, make_sequences(2))
    while not all(driver.tokens.values()):
        driver.step(["s0", "s1"])
    scheduler.give_up_kv(next(r for r in scheduler.running if r.request_id.startswith("s0")))
    pool = scheduler.kv_cache_manager.block_pool
    pool.free_blocks(pool.get_new_blocks(scheduler.num_free_blocks))  # what was in them cannot be found again
    num_tokens = len(driver.tokens["s0"])
    for _ in range(6):
        driver.step(["s0"], suspended=["s1"])
    assert len(scheduler.kv_holding_waiting) == 1
    assert (len(driver.tokens["s0"]), scheduler.num_given_up) == (num_tokens, 1)
    while driver.unfinished:
        driver.step(driver.unfinished)
    driver.step([])
    assert scheduler.num_given_up == 1
    assert scheduler.num_free_blocks == 64


def test_little_memory(backend):
    pool = backend._scheduler.kv_cache_manager.block_pool
    sequences = make_sequences(8, GRAMMAR)
    expected = uninterrupted(backend, sequences)
    given_up = backend._scheduler.num_given_up
    taken = pool.get_new_blocks(44)
    tokens, _ = interrupted(backend, sequences, seed=7)
    pool.free_blocks(taken)
    assert tokens == expected
    assert backend._scheduler.num_given_up > given_up
