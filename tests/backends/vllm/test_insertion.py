# SPDX-License-Identifier: Apache-2.0
"""What happened in the world is put behind what a suspended request wrote, and it goes on behind that."""

import pytest

pytest.importorskip("vllm")

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.request import PlanRequest
from llm_planner.scheduling.execution_tracker import ExecutionTracker
from llm_planner.scheduling.generation import Generation
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from tests.backends.vllm.fake_core import next_token, with_steps_in_flight
from tests.backends.vllm.test_identity import MAX_TOKENS, uninterrupted
from tests.engine.builders import PROMPT, sequence

FEEDBACK = (200, 201, 202, 203, 204)


class Planner:
    """Our scheduler above a backend, without robots; it reads only what is delivered, as sessions do."""

    def __init__(self, backend, names):
        self.backend = backend
        self.scheduler = Scheduler(SchedulerConfig(policy="fcfs_segment"), make_policy("fcfs_segment"), backend.info)
        self.generations = {name: self.add(name, PROMPT[i:]) for i, name in enumerate(names)}
        self.ran = {}

    def add(self, name, prompt):
        request = PlanRequest(request_id=name, robot_id=name, robot_model="tello", instruction="-")
        generation = Generation(
            request=request,
            sequence=sequence(name, prompt=prompt),
            arrival_s=0.0,
            execution=ExecutionTracker(0.0, 0.0),
            max_output_tokens=MAX_TOKENS,
        )
        self.scheduler.add(generation)
        return generation

    def step(self):
        scheduled = self.scheduler.schedule(0.0)
        output = self.backend.execute(scheduled)
        assert not output.failed, output.failed
        step = output.step or scheduled
        for name, num_tokens in step.num_scheduled_tokens.items():
            self.ran[name] = self.ran.get(name, 0) + num_tokens
        left = {name: g.num_tokens_left for name, g in self.generations.items()}
        self.scheduler.update(step, output.limited(left), {}, 0.0)
        for name, generation in self.generations.items():
            if generation.num_tokens_left == 0:
                self.scheduler.end(name)

    def run_until(self, condition):
        for _ in range(500):
            if condition():
                return
            self.step()
        raise AssertionError("it never came to that")

    def release(self):
        self.backend.execute(self.scheduler.schedule(0.0))


def check(backend, expected_of):
    planner = Planner(backend, "ab")
    a, b = planner.generations.values()
    planner.run_until(lambda: a.num_output_tokens >= 20)
    context = (*a.sequence.prompt_token_ids, *a.output_token_ids, *FEEDBACK)
    planner.scheduler.insert("a", FEEDBACK, MAX_TOKENS, 0.0)
    planner.ran.clear()
    planner.run_until(lambda: a.num_output_tokens >= 1)
    num_computed = planner.ran["a"]
    planner.run_until(lambda: a.num_output_tokens >= MAX_TOKENS and b.num_output_tokens >= MAX_TOKENS)
    tokens = list(a.output_token_ids), list(b.output_token_ids)
    prompts = context, b.sequence.prompt_token_ids
    planner.release()
    assert tokens == tuple(expected_of(prompt) for prompt in prompts)
    return num_computed


def test_it_continues_after_the_feedback_and_other_requests_are_unaffected(backend):
    def alone(prompt):
        return uninterrupted(backend, [sequence("alone", prompt=prompt)])["alone"]

    num_computed = check(backend, alone)
    assert num_computed <= backend.info.block_size + len(FEEDBACK)  # the rest was found again by what is in it


@pytest.mark.parametrize("depth", [2, 3])
def test_what_was_in_flight_is_forgotten(backend, depth):
    def said(prompt):
        known = list(prompt)
        while len(known) < len(prompt) + MAX_TOKENS:
            known.append(next_token(known))
        return known[len(prompt) :]

    check(with_steps_in_flight(backend, depth), said)
