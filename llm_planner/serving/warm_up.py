# SPDX-License-Identifier: Apache-2.0
"""Runs the model before any request waits for it."""

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Backend
from llm_planner.core.step import SchedulerOutput, Sequence
from llm_planner.scheduling.scheduler import Scheduler

_MOST_STEPS = 100_000
"""For a first token. Ours comes in one; an engine that is asked while steps are in flight answers with empty ones."""


def rehearse(sequence: Sequence, backend: Backend, scheduler: Scheduler, num_steps: int = 0) -> None:
    """Computes the first tokens of a sequence and forgets all but its prefix, if there is room in the KV cache.

    Args:
        sequence: New to the backend.
        backend: Runs it.
        scheduler: Learns what a decode step takes; nothing else.
        num_steps: Decode steps after the prefill; fewer if the answer ends before.

    Raises:
        PlannerError: ENGINE_FAILED if the engine cannot run it.
    """
    request_id, ledger = sequence.request_id, scheduler.ledger
    if sequence.prefix_id is not None:
        ledger.pin_prefix(sequence.prefix_id, sequence.num_cached_tokens)
    num_tokens = len(sequence.prompt_token_ids) - sequence.num_cached_tokens
    if num_tokens + num_steps > ledger.free_blocks * ledger.block_size:
        return
    step = SchedulerOutput(new=(sequence,), num_scheduled_tokens={request_id: num_tokens})
    for _ in range(_MOST_STEPS):
        output = backend.execute(step)
        if request_id in output.token_ids or request_id in output.finished:
            break
        if request_id in output.failed:
            raise PlannerError(ErrorCode.ENGINE_FAILED, f"no plan can be made: {output.failed[request_id]}")
        step = SchedulerOutput(num_scheduled_tokens={request_id: num_tokens})  # an engine may have steps in flight
    else:
        raise PlannerError(ErrorCode.ENGINE_FAILED, f"no plan can be made: no token came in {_MOST_STEPS} steps")
    step, kv_len = SchedulerOutput(num_scheduled_tokens={request_id: 1}), len(sequence.prompt_token_ids)
    for _ in range(num_steps):
        if request_id in output.finished or request_id in output.failed:
            break
        output = backend.execute(step)
        scheduler.times.observe_step([(1, kv_len)], output.duration_s)
        kv_len += len(output.token_ids.get(request_id, ()))
    backend.execute(SchedulerOutput(release=(request_id,)))
