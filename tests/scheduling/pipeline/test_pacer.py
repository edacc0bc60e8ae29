# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pipeline_times import PipelineTimes
from llm_planner.scheduling.pipeline.pacer import PaperPacer, PipelineLoad, StaticPacer, UrgentFirst

TIMES = PipelineTimes(compute_base_s=0.02, compute_per_token_s=1e-4, link_latency_s=0.01, link_per_token_s=1.6e-3)


def test_the_static_pacer_knows_no_load():
    pacer = StaticPacer(4, 2048)
    assert pacer.next(PipelineLoad(num_decodes=9, num_ready=9), 0) == pacer.next(PipelineLoad(), 3)
    assert pacer.next(PipelineLoad(), 0).token_budget == 2048


def test_one_prompt_is_spread_over_the_stages_and_the_unused_part_is_not_lost():
    pacer = PaperPacer(4, 2048)
    assert pacer.next(PipelineLoad(num_decodes=8, next_prompt_tokens=256, waiting_tokens=512), 0).token_budget == 64 + 2
    pacer.scheduled(60)
    assert pacer.next(PipelineLoad(num_decodes=8, num_prefill_tokens=196), 1).token_budget == 68 + 2


def test_a_full_pipeline_builds_nothing_and_forgets_nothing():
    pacer = PaperPacer(4, 2048)
    load = PipelineLoad(next_prompt_tokens=256)
    assert pacer.next(load, 4).token_budget == 0
    assert pacer.next(load, 3).token_budget == 64


def test_both_algorithms_together_fly_more_micro_batches_over_a_slow_link():
    share = PaperPacer(4, 2048, TIMES).next(PipelineLoad(num_decodes=40), 0)
    assert 4 < share.num_in_flight <= 8
    assert share.token_budget == -(-40 // share.num_in_flight)


def test_urgent_ones_always_fit():
    load = PipelineLoad(num_decodes=8, num_ready=8, num_urgent_ready=6)
    assert PaperPacer(4, 2048).next(load, 0).token_budget == 2
    assert UrgentFirst(PaperPacer(4, 2048), 2048).next(load, 0).token_budget == 6


def test_without_urgency_nothing_is_widened():
    load = PipelineLoad(num_decodes=9, num_ready=4, next_prompt_tokens=300)
    assert UrgentFirst(PaperPacer(4, 2048), 2048).next(load, 0) == PaperPacer(4, 2048).next(load, 0)


@pytest.mark.parametrize(("num_stages", "budget"), [(4, 0), (0, 2048), (4, -3)])
@pytest.mark.parametrize("pacer", [StaticPacer, PaperPacer])
def test_a_pipeline_without_stages_or_budget_is_refused(pacer, num_stages, budget):
    with pytest.raises(PlannerError, match=r"1 (stage )?or more") as error:
        pacer(num_stages, budget)
    assert error.value.code is ErrorCode.INVALID_CONFIG


@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 4000), st.floats(0, 1)), max_size=30),
)
def test_whoever_uses_shares_gets_all_prompts_done(num_stages, steps):
    """Random loads; then whatever is left is scheduled in a number of micro-batches that does not depend on it."""
    pacer, left = PaperPacer(num_stages, 10_000, TIMES), 0
    for num_decodes, prompt, used in steps:
        waiting = 0 if left else prompt
        load = PipelineLoad(num_decodes=num_decodes, num_prefill_tokens=left, next_prompt_tokens=waiting)
        share = pacer.next(load, 0)
        left += waiting
        num_used = min(left, int(used * share.token_budget))
        pacer.scheduled(num_used)
        left -= num_used
    for _ in range(4 * num_stages + 2):
        share = pacer.next(PipelineLoad(num_prefill_tokens=left), 0)
        num_used = min(left, share.token_budget)
        pacer.scheduled(num_used)
        left -= num_used
    assert left == 0
