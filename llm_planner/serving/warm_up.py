"""Runs the model before anybody waits for it."""

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Backend
from llm_planner.core.step import SchedulerOutput, Sequence
from llm_planner.scheduling.kv_ledger import KVLedger


def run_once(sequence: Sequence, backend: Backend, ledger: KVLedger) -> None:
    """Computes the first token of a sequence and forgets it, if there is room in the KV cache.

    Raises:
        PlannerError: ENGINE_FAILED if the engine cannot run it.
    """
    request_id = sequence.request_id
    num_tokens = len(sequence.prompt_token_ids) - sequence.num_cached_tokens
    if num_tokens > ledger.free_blocks * ledger.block_size:
        return
    step = SchedulerOutput(new=(sequence,), num_scheduled_tokens={request_id: num_tokens})
    while request_id not in {*(output := backend.execute(step)).token_ids, *output.finished}:
        if request_id in output.failed:
            raise PlannerError(ErrorCode.ENGINE_FAILED, f"no plan can be made: {output.failed[request_id]}")
        step = SchedulerOutput(num_scheduled_tokens={request_id: num_tokens})  # an engine may have steps in flight
    backend.execute(SchedulerOutput(release=(request_id,)))
