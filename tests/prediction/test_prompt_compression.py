# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.prediction.prompt_compression import compress_prompt


def test_the_middle_goes_first():
    assert list(compress_prompt(range(100), 6, 2)) == [0, 1, 96, 97, 98, 99]


@given(st.integers(1, 60), st.integers(1, 30), st.integers(0, 29))
def test_what_is_left_has_the_asked_length_and_keeps_its_order(length, max_tokens, head_tokens):
    head_tokens = min(head_tokens, max_tokens - 1)
    kept = list(compress_prompt(range(length), max_tokens, head_tokens))
    assert len(kept) == min(length, max_tokens)
    assert kept == sorted(set(kept))
    assert kept[-1] == length - 1
    assert kept[:head_tokens] == list(range(min(head_tokens, length)))
