# SPDX-License-Identifier: Apache-2.0
"""Leaving parts of a prompt out."""

from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.shortening import droppable_tokens, shortened
from llm_planner.core.step import Sequence

PROMPT = tuple(range(100, 120))


def sequence(*droppable, evictable=()):
    return Sequence(request_id="a", prompt_token_ids=PROMPT, droppable=droppable, evictable=evictable)


def test_ranges_leave_in_their_order_until_enough_is_gone():
    whole = sequence((10, 12), (4, 7), (15, 16), evictable=((3, 17),))
    assert droppable_tokens(whole) == (2, 5, 6)
    assert shortened(whole, 0) is whole
    short = shortened(whole, 3)
    assert short.prompt_token_ids == (*PROMPT[:4], *PROMPT[7:10], *PROMPT[12:])
    assert short.droppable == ((10, 11),)
    assert short.evictable == ((3, 12),)


def test_more_than_there_is_leaves_out_all_there_is():
    assert shortened(sequence((4, 7)), 50).prompt_token_ids == (*PROMPT[:4], *PROMPT[7:])


@given(st.permutations(range(9)), st.integers(0, 12), st.integers(0, 12))
def test_in_two_steps_as_in_one(order, first, second):
    whole = sequence(*((2 * n + 1, 2 * n + 1 + (n % 3 > 0) + 1) for n in order), evictable=((1, 18),))
    twice = shortened(shortened(whole, first), second)
    num_gone = len(PROMPT) - len(twice.prompt_token_ids)
    once = shortened(whole, num_gone)
    assert once == twice
    assert num_gone >= min(first + second, droppable_tokens(whole)[-1])
    assert set(once.prompt_token_ids) <= set(PROMPT)
    assert {PROMPT[p] for start, end in whole.droppable for p in range(start, end)} >= set(PROMPT) - set(
        once.prompt_token_ids
    )
