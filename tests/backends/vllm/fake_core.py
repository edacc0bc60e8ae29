# SPDX-License-Identifier: Apache-2.0
"""vLLM's scheduler under a core without a model: steps in flight as on a GPU, and predictable tokens."""

import copy
from collections import deque

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1, KVConnectorMetadata
from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput

from llm_planner.backends.vllm.backend import VllmBackend
from llm_planner.backends.vllm.engine import Engine
from llm_planner.backends.vllm.scheduler_mixin import RosterAsyncScheduler


def next_token(token_ids):
    """Returns what the "model" says after these tokens: never an end token."""
    value = 0
    for token_id in token_ids:
        value = (value * 1_000_003 + token_id + 7) % 2_147_483_647
    return 10 + value % 250


class SlowMemory(KVConnectorBase_V1):
    """KV from elsewhere: what a request lost comes back some steps after it was asked for, while its blocks are held.

    Args:
        scheduler: Is told of what has come.
        num_steps: Until it has.
    """

    requires_kv_delivery = supports_divergent_local_hybrid_hits = False

    def __init__(self, scheduler, num_steps):
        self._scheduler, self._num_steps, self._kv_cache_config = scheduler, num_steps, scheduler.kv_cache_config
        self._left = {}
        self.num_loads = 0

    def step(self):
        self._left = {name: left - 1 for name, left in self._left.items()}
        come = {name for name, left in self._left.items() if left < 0}
        self._left = {name: left for name, left in self._left.items() if name not in come}
        self._scheduler._update_from_kv_xfer_finished(KVConnectorOutput(finished_recving=come))

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        whole = request.num_tokens // self._scheduler.block_size * self._scheduler.block_size
        is_lost = request.num_preemptions > 0 and whole > num_computed_tokens
        return (whole - num_computed_tokens, True) if is_lost else (0, False)

    def update_state_after_alloc(self, request, blocks, num_external_tokens):
        if num_external_tokens:
            self._left[request.request_id] = self._num_steps
            self.num_loads += 1

    def build_connector_meta(self, scheduler_output):
        return KVConnectorMetadata()

    def start_load_kv(self, forward_context, **kwargs):
        pass

    def wait_for_layer_load(self, layer_name):
        pass

    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs):
        pass

    def wait_for_save(self):
        pass


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
        if self.scheduler.connector is not None:
            self.scheduler.connector.step()
        scheduled = self.scheduler.schedule()
        is_executed = scheduled.total_num_scheduled_tokens > 0
        assert scheduled.num_scheduled_tokens.keys() <= self.scheduler._roster.num_tokens.keys()
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
