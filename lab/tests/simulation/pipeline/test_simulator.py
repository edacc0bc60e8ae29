# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.simulation.pipeline.builders import TIMES, make_requests, make_scheduler, run
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.time_utility import URGENT
from llm_planner.scheduling.pipeline.balanced import BalancedPacer
from llm_planner.scheduling.pipeline.pacer import PaperPacer, StaticPacer, UrgentFirst
from llm_planner_lab.simulation.pipeline.request import PipelineRequest
from llm_planner_lab.simulation.pipeline.scheduler import Admission

PACERS = {
    "static": lambda: StaticPacer(4, 2048),
    "token_budget": lambda: PaperPacer(4, 2048),
    "both": lambda: PaperPacer(4, 2048, TIMES),
    "balanced": lambda: BalancedPacer(4, 2048, TIMES),
    "urgent": lambda: UrgentFirst(BalancedPacer(4, 2048, TIMES), 2048),
}


def test_one_request_takes_what_its_micro_batches_take():
    """A prompt of 64 and three more tokens through two stages, each after the one before has come back."""
    result = run(make_requests(1, 64, 4), num_stages=2)

    def through(num_tokens, kv_tokens):
        return TIMES.traversal_s(2, num_tokens, kv_tokens) + TIMES.link_latency_s

    expected_s = through(64, 0) + through(1, 64) + through(1, 65) + through(1, 66)
    assert result.completion_s == pytest.approx(expected_s)
    assert result.num_micro_batches == 4
    assert result.idle_s + result.processing_s == pytest.approx(result.completion_s)


def test_chunks_of_one_prompt_are_in_flight_together_and_bring_one_token():
    scheduler = make_scheduler(StaticPacer(4, 16))
    result = run(make_requests(1, 64, 1), scheduler)
    assert result.num_micro_batches == 4
    assert len(result.sequences[0].token_times_s) == 1
    alone_s = 4 * (TIMES.traversal_s(4, 16) + TIMES.link_latency_s)
    assert result.completion_s < 0.6 * alone_s


def test_vllm_packs_whatever_is_ready_into_the_first_micro_batch():
    """Eight short prompts begin together and stay together: of four stages one is busy."""
    result = run(make_requests(8, 16, 50), times=replace(TIMES, link_latency_s=0.0, link_per_token_s=0.0))
    assert result.num_micro_batches == 50
    assert result.processing_s == pytest.approx(result.completion_s / 4, rel=1e-3)


def test_balanced_shares_keep_all_stages_busy():
    static, balanced = (
        run(make_requests(8, 16, 50)),
        run(make_requests(8, 16, 50), make_scheduler(PACERS["balanced"]())),
    )
    assert balanced.idle_s < 0.6 * static.idle_s
    assert balanced.completion_s < static.completion_s


def test_without_memory_the_youngest_is_preempted_and_recomputed():
    result = run(make_requests(8, 64, 64), make_scheduler(num_blocks=40))  # 8 need 64 blocks in the end
    assert result.num_preemptions > 0
    assert result.num_recomputed_tokens > 0
    assert result.sequences[0].num_preemptions == 0


def test_lookahead_avoids_preemption():
    result = run(make_requests(12, 64, 64), make_scheduler(num_blocks=40, admission=Admission.LOOKAHEAD))
    assert result.num_preemptions == 0


def test_a_request_that_never_fits_is_refused_clearly():
    with pytest.raises(PlannerError, match="never fits") as error:
        run(make_requests(1, 64 * 16, 400))
    assert error.value.code is ErrorCode.PROMPT_TOO_LONG


def test_who_comes_later_is_served_later():
    requests = make_requests(1) + [replace(r, request_id=7, arrival_s=100.0) for r in make_requests(1)]
    result = run(requests)
    assert result.sequences[1].token_times_s[0] > 100.0
    assert result.completion_s > 100.0


def test_passages_are_recorded_if_asked_for():
    result = run(make_requests(4), is_recorded=True)
    assert len(result.passages) == 4 * result.num_micro_batches
    assert sum(p.ended_s - p.began_s for p in result.passages) == pytest.approx(sum(result.busy_s))
    assert run(make_requests(4)).passages == ()


requests_ = st.lists(st.tuples(st.floats(0, 20), st.integers(1, 200), st.integers(1, 40)), min_size=1, max_size=12).map(
    lambda rows: [
        PipelineRequest(request_id=number, arrival_s=arrival_s, num_prompt_tokens=prompt, num_output_tokens=output)
        for number, (arrival_s, prompt, output) in enumerate(rows)
    ]
)


@settings(deadline=None, max_examples=40)
@given(requests_, st.sampled_from(sorted(PACERS)), st.sampled_from(Admission), st.integers(16, 60), st.integers(1, 5))
def test_each_request_gets_all_tokens_in_order(requests, name, admission, num_blocks, num_stages):
    scheduler = make_scheduler(PACERS[name](), num_blocks, 16, admission, 0.1 if name == "urgent" else None)
    result = run(requests, scheduler, num_stages)
    for sequence, request in zip(result.sequences, requests, strict=True):
        assert len(sequence.token_times_s) == request.num_output_tokens
        assert sequence.token_times_s == sorted(sequence.token_times_s)
        assert sequence.token_times_s[0] > request.arrival_s
        assert sequence.num_blocks == 0
    assert scheduler.num_free_blocks == num_blocks
    assert result.idle_s >= 0.0
    assert all(busy_s <= result.completion_s + 1e-9 for busy_s in result.busy_s)


def test_an_urgent_request_overtakes_among_normal_ones():
    requests = make_requests(40, 200, 60)
    requests[30] = replace(requests[30], arrival_s=5.0, time_utility=URGENT)
    pacers = {"balanced": None, "urgent": 0.1}
    first_s = {
        name: run(requests, make_scheduler(PACERS[name](), 200, 16, Admission.LOOKAHEAD, hold_back_s))
        .sequences[30]
        .token_times_s[0]
        for name, hold_back_s in pacers.items()
    }
    assert first_s["urgent"] < 0.5 * first_s["balanced"]
