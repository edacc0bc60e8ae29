# SPDX-License-Identifier: Apache-2.0
"""vLLM as it is, to compare with: its own scheduler in the place of ours, in the same vLLM."""

import copy
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from vllm.config.scheduler import SchedulerPolicy
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request

from llm_planner.backends.vllm.backend import VllmBackend
from llm_planner.backends.vllm.scheduler_mixin import WatchedMixin
from llm_planner.core.interfaces import Clock

Priorities = Callable[[str], int]


class PriorityMixin(WatchedMixin):
    """Gives requests the priority that a client of vLLM would give them."""

    priority_of: Priorities

    def add_request(self, request: Request) -> None:
        """Takes a request; the smallest priority comes first."""
        request.priority = self.priority_of(request.request_id.rpartition("#")[0])
        super().add_request(request)


class StockScheduler(PriorityMixin, Scheduler):
    """vLLM's own."""


class StockAsyncScheduler(PriorityMixin, AsyncScheduler):
    """vLLM's own with steps in flight."""


def use_stock(
    backend: VllmBackend, policy: SchedulerPolicy, num_slots: int, priority_of: Priorities = lambda _: 0
) -> None:
    """Takes our scheduler out of a vLLM that has no requests, and gives vLLM back its own.

    What is handed to the backend from now on goes to vLLM at once, and vLLM decides what runs.

    Args:
        backend: The backend with this vLLM.
        policy: ``fcfs`` or ``priority``.
        num_slots: ``max_num_seqs`` of vLLM.
        priority_of: Of a request; the smallest comes first. Only for ``priority``.
    """
    engine, core = backend.engine, backend.engine.core
    ours = engine.scheduler
    config = copy.copy(core.vllm_config)
    config.scheduler_config = copy.copy(config.scheduler_config)
    config.scheduler_config.policy, config.scheduler_config.max_num_seqs = policy, num_slots
    stock = (StockAsyncScheduler if isinstance(ours, AsyncScheduler) else StockScheduler)(
        vllm_config=config,
        kv_cache_config=ours.kv_cache_config,
        structured_output_manager=ours.structured_output_manager,
        block_size=ours.block_size,
        hash_block_size=ours.hash_block_size,
    )
    stock.priority_of = priority_of
    stock.finished_req_ids = ours.finished_req_ids  # the workers do not know of them yet
    engine.scheduler = core.scheduler = stock
    _allow_in_flight(backend, core.vllm_config.max_concurrent_batches)


def _allow_in_flight(backend: VllmBackend, num_batches: int) -> None:
    core = backend.engine.core
    if core.batch_queue is not None:
        core.batch_queue_size, core.batch_queue = num_batches, deque(maxlen=num_batches)


@contextmanager
def stock(
    backend: VllmBackend, policy: SchedulerPolicy, num_slots: int, priority_of: Priorities = lambda _: 0
) -> Iterator[None]:
    """Has vLLM schedule by itself for a while, and then as before."""
    engine, ours = backend.engine, backend.engine.scheduler
    num_batches = engine.core.batch_queue_size
    use_stock(backend, policy, num_slots, priority_of)
    try:
        yield
    finally:
        ours.finished_req_ids = engine.scheduler.finished_req_ids
        ours.reset_prefix_cache()  # what it remembers of blocks was overwritten meanwhile
        engine.scheduler = engine.core.scheduler = ours
        _allow_in_flight(backend, num_batches)


class ScheduleWatch:
    """Times vLLM's schedule, with our mixin or without it, and the whole step around it; CPU time.

    Attributes:
        is_stock: Whether the next step is scheduled without us.
        schedule_s: What the last schedule took, planning included.
        step_s: What the last step took, planning included.
    """

    def __init__(self, backend: VllmBackend, clock: Clock) -> None:
        self._core, self._clock = backend.engine.core, clock
        self._scheduler: Any = backend.engine.scheduler
        self._plan, self._ours = self._scheduler.plan, self._scheduler.schedule
        self._stock, self._step = partial(Scheduler.schedule, self._scheduler), self._core.step_fn
        self._scheduler.plan, self._scheduler.schedule = self._timed_plan, self._schedule  # type: ignore[method-assign]
        self._core.step_fn = self._whole_step
        self.is_stock = False
        self.schedule_s = self.step_s = self._plan_s = 0.0

    def _timed_plan(self, roster: Any) -> None:
        start_s = self._clock.now_s()
        self._plan(roster)
        self._plan_s = self._clock.now_s() - start_s

    def _schedule(self, throttle_prefills: bool = False) -> Any:
        start_s = self._clock.now_s()
        output = (self._stock if self.is_stock else self._ours)(throttle_prefills)
        self.schedule_s = self._clock.now_s() - start_s + (0.0 if self.is_stock else self._plan_s)
        self._scheduler.num_in_flight += self.is_stock  # as the mixin counts
        return output

    def _whole_step(self) -> Any:
        start_s = self._clock.now_s()
        result = self._step()
        self.step_s = self._clock.now_s() - start_s + self._plan_s
        return result

    def restore(self) -> None:
        """Takes the stopwatch off."""
        del self._scheduler.plan, self._scheduler.schedule
        self._core.step_fn = self._step
