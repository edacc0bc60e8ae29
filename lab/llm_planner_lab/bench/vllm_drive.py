# SPDX-License-Identifier: Apache-2.0
"""Drives vLLM for a benchmark: generations without robots, through our scheduler, step by step."""

import random

from llm_planner.backends.vllm.backend import VllmBackend
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.step import Sequence, StepOutput
from llm_planner.scheduling.execution_tracker import ExecutionTracker
from llm_planner.scheduling.generation import Generation
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler

ENDLESS = "start: /[a-z ]{8000}/\n"
"""A grammar under which no sequence ends by itself."""
PROMPT_TOKENS = 64
MANY = 1024
"""Slots for all requests: vLLM then decides which of them run."""


def make_sequence(name: str, rng: random.Random, grammar: str | None = ENDLESS) -> Sequence:
    """Returns a sequence with a random prompt, which no other shares."""
    prompt = tuple(rng.randrange(10, 200) for _ in range(PROMPT_TOKENS))
    return Sequence(request_id=name, prompt_token_ids=prompt, grammar=grammar)


class Drive:
    """A scheduler of ours above a vLLM, with generations that end after a given number of tokens.

    Args:
        backend: Runs the steps.
        rng: Of prompts.
        num_slots: Of our scheduler; None hands everything to vLLM at once, for vLLM's own scheduler.
        grammar: Of all generations.
    """

    def __init__(
        self,
        backend: VllmBackend,
        rng: random.Random,
        num_slots: int | None,
        *,
        grammar: str | None = ENDLESS,
    ) -> None:
        config = SchedulerConfig(
            policy="fcfs_stream" if num_slots is None else "tardiness", max_num_seqs=num_slots or MANY
        )
        self._backend = backend
        self._rng = rng
        self._grammar = grammar
        self._clock = MonotonicClock()
        self._scheduler = Scheduler(config, make_policy(config.policy), backend.info)
        self.num_tokens = 0

    def add(self, name: str, max_tokens: int, urgency: Urgency = Urgency.NORMAL) -> Generation:
        """Puts a generation in line."""
        request = PlanRequest(
            request_id=name,
            robot_id=name,
            robot_model="bench",
            instruction="-",
            urgency=urgency,
        )
        now_s = self._clock.now_s()
        generation = Generation(
            request=request,
            sequence=make_sequence(name, self._rng, self._grammar),
            arrival_s=now_s,
            execution=ExecutionTracker(now_s, 0.0),
            max_output_tokens=max_tokens,
        )
        self._scheduler.add(generation)
        return generation

    def step(self, watch: Clock | None = None) -> tuple[float, StepOutput]:
        """Runs one step; returns how long our scheduler took, by ``watch``, and what came out.

        Raises:
            PlannerError: ENGINE_FAILED if vLLM gives a request up.
        """
        watch = watch or self._clock
        now_s, began_s = self._clock.now_s(), watch.now_s()
        scheduled = self._scheduler.schedule(now_s)
        decided_s = watch.now_s()
        output = self._backend.execute(scheduled)
        executed_s = watch.now_s()
        if output.failed:
            raise PlannerError(ErrorCode.ENGINE_FAILED, f"vLLM gave up: {dict(output.failed)}")
        self._scheduler.update(output.step or scheduled, output, {}, self._clock.now_s())
        took_s = decided_s - began_s + watch.now_s() - executed_s
        self.num_tokens += sum(map(len, output.token_ids.values()))
        for generation in list(self._scheduler.generations):
            if generation.num_tokens_left <= 0 or generation.request_id in output.finished:
                self._scheduler.end(generation.request_id)
        return took_s, output

    @property
    def is_done(self) -> bool:
        """Whether everything has ended."""
        return not list(self._scheduler.generations)

    def end(self) -> None:
        """Ends what is left, and takes back what is in flight."""
        for generation in list(self._scheduler.generations):
            self._scheduler.end(generation.request_id)
        self._backend.execute(self._scheduler.schedule(self._clock.now_s()))
