# SPDX-License-Identifier: Apache-2.0
"""vLLM's scheduler under a core without a model: steps in flight as on a GPU, and predictable tokens."""

import copy
from collections import deque

from vllm.v1.outputs import ModelRunnerOutput

from llm_planner.backends.vllm.backend import VllmBackend
from llm_planner.backends.vllm.engine import Engine
from llm_planner.backends.vllm.scheduler_mixin import RosterAsyncScheduler


def next_token(token_ids):
    """Returns what the "model" says after these tokens: never an end token."""
    value = 0
    for token_id in token_ids:
        value = (value * 1_000_003 + token_id + 7) % 2_147_483_647
    return 10 + value % 250


class FakeCore:
    """Runs steps at once, but gives them back ``depth`` steps later; it knows the tokens that are in flight."""

    def __init__(self, core, scheduler, depth):
        self._core, self.scheduler = core, scheduler
        self.batch_queue_size = depth
        self._queue = deque()
        self._token_ids = {}

    def __getattr__(self, name):
        return getattr(self._core, name)

    def add_request(self, request, request_wave=0):
        self._token_ids[request.request_id] = list(request.prompt_token_ids)
        self.scheduler.add_request(request)

    def abort_requests(self, request_ids):
        self.scheduler.finish_requests(request_ids, type(self)._aborted())

    @staticmethod
    def _aborted():
        from vllm.v1.request import RequestStatus

        return RequestStatus.FINISHED_ABORTED

    def post_step(self, model_executed):
        pass

    def step_fn(self):
        scheduled = self.scheduler.schedule()
        is_executed = scheduled.total_num_scheduled_tokens > 0
        if is_executed:
            self._queue.append((scheduled, self._run(scheduled)))
            if len(self._queue) < self.batch_queue_size:
                return None, True
        if not self._queue:
            return {}, False
        return self.scheduler.update_from_output(*self._queue.popleft()), is_executed

    def _run(self, scheduled):
        sampled = []
        for name in scheduled.num_scheduled_tokens:
            request, known = self.scheduler.requests[name], self._token_ids[name]
            if request.num_computed_tokens < len(known):
                sampled.append([])
                continue
            known.append(next_token(known))
            sampled.append([known[-1]])
        names = list(scheduled.num_scheduled_tokens)
        return ModelRunnerOutput(
            req_ids=names, req_id_to_index={n: i for i, n in enumerate(names)}, sampled_token_ids=sampled
        )


def with_steps_in_flight(backend, depth):
    """Returns a backend with a fake core and vLLM's asynchronous scheduler, on the KV cache of a real one."""
    core = backend._engine.core
    config = copy.copy(core.vllm_config)
    config.scheduler_config = copy.copy(config.scheduler_config)
    config.scheduler_config.async_scheduling = True
    scheduler = RosterAsyncScheduler(
        vllm_config=config,
        kv_cache_config=core.scheduler.kv_cache_config,
        structured_output_manager=core.structured_output_manager,
        block_size=core.scheduler.block_size,
        hash_block_size=core.scheduler.hash_block_size,
    )
    engine = Engine(core=FakeCore(core, scheduler, depth), inputs=backend._engine.inputs, scheduler=scheduler)
    return VllmBackend(engine, tokenizer=backend.tokenizer, model="fake")
