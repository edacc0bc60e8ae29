# SPDX-License-Identifier: Apache-2.0
"""Several tokens per step on vLLM: the same tokens as with one per step, in fewer steps."""

import pytest

pytest.importorskip("vllm")

from llm_planner.backends.vllm.backend import open_backend
from llm_planner.backends.vllm.drafts import Drafts, measure_step_cost
from llm_planner.backends.vllm.engine import EngineSettings
from llm_planner.core.step import SamplingParams, SchedulerOutput
from llm_planner.engine.drafting import LEAST_PROBABILITY
from tests.backends.vllm.conftest import NUM_BLOCKS
from tests.backends.vllm.test_identity import Driver, interrupted, make_sequences, uninterrupted
from tests.backends.vllm.test_insertion import Planner, check
from tests.backends.vllm.test_loop import expected, make_run, plans
from tests.engine.builders import PROMPT, sequence
from tests.serving.test_loop_with_engine import INSTRUCTIONS

__all__ = ["expected"]  # a fixture

GRAMMAR = 'start: ("mf(1" /[0-9]/ "0);" | "g(" /[ab]/ "_box);" | "take_picture();")+\n'


@pytest.fixture(scope="session")
def running_drafting(model_dir):
    backend = open_backend(
        EngineSettings(
            model_dir=model_dir, dtype="float32", num_kv_blocks=NUM_BLOCKS, num_threads=1, lookahead="always"
        )
    )
    yield backend
    backend.close()


@pytest.fixture
def drafting(running_drafting):
    running_drafting.drafts = Drafts("always")  # nothing that earlier tests wrote is drafted
    yield running_drafting
    left = list(running_drafting._scheduler.requests)
    running_drafting.engine.core.abort_requests(left)
    assert not left
    assert not running_drafting.drafts._drafters
    assert running_drafting._scheduler.num_free_blocks == NUM_BLOCKS


@pytest.fixture(scope="module")
def plain(running_backend):
    """What an engine with one token per step says, one request at a time."""
    return uninterrupted(running_backend, make_sequences(8, GRAMMAR))


def run_together(backend, sequences):
    driver = Driver(backend, sequences)
    while driver.unfinished:
        driver.step(driver.unfinished)
    driver.step([])
    return driver


@pytest.mark.parametrize("mode", ["forced", "prompt", "always"])
def test_the_same_tokens_in_fewer_steps(drafting, plain, mode):
    drafting.drafts = Drafts(mode)
    driver = run_together(drafting, make_sequences(8, GRAMMAR))
    assert driver.tokens == plain
    assert driver.num_steps < sum(map(len, plain.values()))
    assert 0 <= driver.num_rejected <= driver.num_drafted
    assert (driver.num_rejected == 0) == (mode == "forced")  # what must come is always right


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_suspended_at_random(drafting, plain, seed):
    tokens, num_pauses = interrupted(drafting, make_sequences(8, GRAMMAR), seed)
    assert tokens == plain
    assert num_pauses > 15


def test_little_memory(drafting, plain):
    given_up = drafting._scheduler.num_given_up
    pool = drafting._scheduler.kv_cache_manager.block_pool
    taken = pool.get_new_blocks(44)
    tokens, _ = interrupted(drafting, make_sequences(8, GRAMMAR), seed=7)
    pool.free_blocks(taken)
    assert tokens == plain
    assert drafting._scheduler.num_given_up > given_up


def test_whole_plans_are_those_of_our_own_engine(drafting, expected):
    for policy in ("fcfs_stream", "tardiness"):
        run = make_run(drafting, policy)
        assert plans(run) == expected
        assert (sum(run.result(i).metrics.num_suspensions for i in INSTRUCTIONS) > 0) == (policy == "tardiness")


def test_what_a_robot_saw_is_inserted(drafting, running_backend):
    def alone(prompt):
        return uninterrupted(running_backend, [sequence("alone", prompt=prompt)])["alone"]

    check(drafting, alone)


def test_our_scheduler_counts_what_was_rejected(drafting):
    planner = Planner(drafting, "ab")
    for _ in range(30):
        planner.step()
        for generation in planner.generations.values():
            assert generation.num_uncomputed_tokens == 1 or generation.num_tokens_left <= 0
    for name in "ab":
        planner.scheduler.end(name)
    planner.release()


def test_one_that_samples_says_the_same_next_to_one_that_drafts(drafting, running_backend):
    sampling = SamplingParams(temperature=1.0, seed=5)
    sampled = sequence("s", prompt=PROMPT[3:], grammar=GRAMMAR, sampling=sampling)
    sequences = [*make_sequences(4, GRAMMAR), sampled]
    driver = run_together(drafting, sequences)
    assert driver.tokens == uninterrupted(running_backend, sequences)
    assert driver.num_drafted > 0


def test_a_prompt_of_which_all_but_one_token_is_known_is_scheduled(drafting):
    prompt = tuple(range(10, 75))  # two whole blocks and one token
    first = uninterrupted(drafting, [sequence("a", prompt=prompt)])["a"]
    driver = Driver(drafting, [sequence("busy", prompt=PROMPT), sequence("b", prompt=prompt)])
    driver.step(["busy"])
    output = driver.step(["busy", "b"])
    assert output.step.num_scheduled_tokens["b"] == 1
    while driver.unfinished:
        driver.step(driver.unfinished)
    driver.step([])
    assert driver.tokens["b"] == first


def test_what_drafts_cost_is_measured_and_counts(drafting):
    cost = measure_step_cost(drafting)
    assert cost.base_s > 0
    assert LEAST_PROBABILITY <= cost.least_probability(1) <= cost.least_probability(16) <= 1


def test_the_first_step_asked_for_runs_a_request_with_a_grammar(drafting):
    """No thread compiles it while empty steps are made."""
    grammar = 'start: ("new" | "grammar" | "never" | "seen")+\n'
    num_empty = drafting._scheduler.num_empty_calls
    output = drafting.execute(
        SchedulerOutput(new=(sequence("g", grammar=grammar),), num_scheduled_tokens={"g": len(PROMPT)})
    )
    assert output.token_ids["g"]
    assert drafting._scheduler.num_empty_calls == num_empty
    drafting.execute(SchedulerOutput(release=("g",)))
