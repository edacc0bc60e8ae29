# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.pipeline_times import PipelineTimes
from llm_planner.scheduling.pipeline.micro_batch import cycle_s, paper_num_micro_batches, shortest_cycle

FAST_LINK = PipelineTimes(compute_base_s=0.02, compute_per_token_s=1e-4)
SLOW_LINK = PipelineTimes(compute_base_s=0.02, compute_per_token_s=1e-4, link_latency_s=0.01, link_per_token_s=1.6e-3)

times_ = st.builds(
    PipelineTimes,
    compute_base_s=st.floats(1e-3, 0.1),
    compute_per_token_s=st.floats(1e-6, 1e-3),
    compute_per_kv_token_s=st.floats(0, 1e-6),
    link_latency_s=st.floats(0, 0.05),
    link_per_token_s=st.floats(0, 1e-2),
)


def test_without_communication_there_are_as_many_as_stages():
    assert paper_num_micro_batches(4, 8, FAST_LINK, 40) == 4
    assert shortest_cycle(4, 8, FAST_LINK, 40, 0) == 4


def test_slow_links_are_hidden_behind_more_micro_batches():
    assert paper_num_micro_batches(4, 8, SLOW_LINK, 40) > 4
    assert shortest_cycle(4, 8, SLOW_LINK, 40, 0) > 4


def test_algorithm_2_minimizes_the_printed_gap():
    """pp = 2, one token per micro-batch: 2 (20.1) + 11.6 against 2 and 3 stages' work, in ms: gaps 11.6 and 8.5."""
    times = PipelineTimes(compute_base_s=0.0201, compute_per_token_s=0.0, link_latency_s=0.0116)
    assert paper_num_micro_batches(2, 2, times, 6) == 2
    assert paper_num_micro_batches(2, 4, times, 6) == 3


def test_few_sequences_make_few_micro_batches():
    assert shortest_cycle(4, 8, SLOW_LINK, 1, 0) == 1
    assert shortest_cycle(4, 8, SLOW_LINK, 0, 0) == 1


@given(times_, st.integers(1, 8), st.integers(1, 60), st.integers(0, 20_000))
def test_a_cycle_is_at_least_the_work_of_each_part(times, num_stages, number, kv_tokens):
    took_s = cycle_s(num_stages, number, times, 3.0, kv_tokens)
    assert took_s >= number * times.computation_s(3.0, kv_tokens)
    assert took_s >= times.traversal_s(num_stages, 3.0, kv_tokens)
    assert num_stages == 1 or took_s >= number * times.link_s(3.0)


@given(times_, st.integers(1, 6), st.integers(0, 80), st.integers(0, 20_000))
def test_the_number_stays_within_its_bounds(times, num_stages, num_decodes, kv_tokens):
    most = 2 * num_stages
    assert 1 <= shortest_cycle(num_stages, most, times, num_decodes, kv_tokens) <= max(1, min(most, num_decodes))
    assert num_stages <= paper_num_micro_batches(num_stages, most, times, num_decodes) <= most
