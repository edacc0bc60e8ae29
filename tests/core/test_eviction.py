# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.eviction import OBSERVATION_TOKENS, SINK_TOKENS, num_removed_tokens, removable_spans
from llm_planner.core.step import Sequence

RANGES = st.lists(st.tuples(st.integers(0, 120), st.integers(0, 120)), max_size=4)


def make_sequence(num_tokens=120, num_cached=0, evictable=((0, 10_000),)):
    return Sequence(
        request_id="r",
        prompt_token_ids=tuple(range(num_tokens)),
        num_cached_tokens=num_cached,
        evictable=tuple(evictable),
    )


def test_what_is_left_of_a_prompt_that_may_go_entirely():
    assert removable_spans(make_sequence()) == ((SINK_TOKENS, 120 - OBSERVATION_TOKENS),)
    assert removable_spans(make_sequence(num_cached=48)) == ((48, 120 - OBSERVATION_TOKENS),)
    assert removable_spans(make_sequence(evictable=((10, 20), (30, 40)))) == ((10, 20), (30, 40))
    assert removable_spans(make_sequence(num_tokens=SINK_TOKENS + OBSERVATION_TOKENS)) == ()
    assert removable_spans(make_sequence(evictable=())) == ()


@given(num_tokens=st.integers(1, 120), num_cached=st.integers(0, 119), evictable=RANGES)
def test_only_what_may_go_is_removable_and_everything_that_may(num_tokens, num_cached, evictable):
    sequence = make_sequence(num_tokens, min(num_cached, num_tokens - 1), evictable)
    spans = removable_spans(sequence)
    removable = [position for start, end in spans for position in range(start, end)]
    allowed = {position for start, end in evictable for position in range(start, end)}
    allowed &= set(range(max(SINK_TOKENS, sequence.num_cached_tokens), num_tokens - OBSERVATION_TOKENS))
    assert removable == sorted(allowed)


@given(ratio=st.floats(0, 1), evictable=RANGES)
def test_never_more_is_removed_than_asked_for_or_allowed(ratio, evictable):
    sequence = make_sequence(evictable=evictable)
    removed = num_removed_tokens(sequence, ratio)
    removable = sum(end - start for start, end in removable_spans(sequence))
    assert min(ratio * 120, removable) - 1 < removed <= min(ratio * 120 + 1e-5, removable)


@given(num_tokens=st.integers(100, 3000), num_removed=st.integers(0, 60))
def test_a_ratio_made_of_a_count_gives_the_count(num_tokens, num_removed):
    assert num_removed_tokens(make_sequence(num_tokens), num_removed / num_tokens) == num_removed


@pytest.mark.parametrize("ratio", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_ratio_out_of_range_is_refused(ratio):
    with pytest.raises(ValueError, match="between 0 and 1"):
        num_removed_tokens(make_sequence(), ratio)
