# SPDX-License-Identifier: Apache-2.0
"""How many micro-batches should be in flight: Dynamic Micro-Batch Scheduling, and the shortest cycle."""

from llm_planner.core.pipeline_times import PipelineTimes


def paper_num_micro_batches(
    num_stages: int, max_num_micro_batches: int, times: PipelineTimes, num_total_tokens: float
) -> int:
    """Returns ``best_num_micro_batch`` of Algorithm 2 (Dynamic Micro-Batch Scheduling, section 4.2), as printed.

    The number whose work on the first stage, Eq. (2), is nearest to the time that one micro-batch needs through the
    pipeline, Eq. (1).

    Args:
        num_stages: ``pp_size``, >= 1.
        max_num_micro_batches: >= ``num_stages``.
        times: Computation and communication models.
        num_total_tokens: Of all micro-batches together.
    """
    best, best_gap_s = num_stages, float("inf")
    for number in range(num_stages, max_num_micro_batches + 1):
        batch_tokens = num_total_tokens / number
        first_token_s = times.traversal_s(num_stages, batch_tokens)
        gap_s = abs(first_token_s - number * times.computation_s(batch_tokens))
        if gap_s < best_gap_s:
            best, best_gap_s = number, gap_s
    return best


def cycle_s(num_stages: int, number: int, times: PipelineTimes, batch_tokens: float, kv_tokens: float) -> float:
    """Returns how long it takes until each of ``number`` micro-batches has come through once.

    The longest of three: a stage computes all of them, a link carries all of them, one of them comes through and its
    tokens go back to the scheduler.

    Args:
        num_stages: >= 1.
        number: Micro-batches in flight, >= 1.
        times: Computation and communication models.
        batch_tokens: Of one micro-batch.
        kv_tokens: In the caches of its sequences.
    """
    compute_s, link_s = times.computation_s(batch_tokens, kv_tokens), times.link_s(batch_tokens)
    through_s = times.traversal_s(num_stages, batch_tokens, kv_tokens) + times.link_latency_s
    return max(number * compute_s, number * link_s if num_stages > 1 else 0.0, through_s)


def shortest_cycle(
    num_stages: int, max_num_micro_batches: int, times: PipelineTimes, num_decodes: int, kv_tokens: int
) -> int:
    """Returns the number of micro-batches with which ``num_decodes`` sequences get their next tokens soonest, >= 1.

    Ours instead of Algorithm 2: the gap that the paper minimizes knows no link that is slower than a stage, and is
    no time that a request waits for. Whole sequences are counted: five make micro-batches of two and one, not of 1.25.
    """
    best, best_s = 1, float("inf")
    for number in range(1, min(max_num_micro_batches, max(1, num_decodes)) + 1):
        largest = -(-num_decodes // number)
        share = kv_tokens / number
        took_s = max(
            cycle_s(num_stages, number, times, num_decodes / number, share),
            cycle_s(num_stages, 1, times, largest, share),
        )
        if took_s < best_s * (1 - 1e-9):
            best, best_s = number, took_s
    return best
