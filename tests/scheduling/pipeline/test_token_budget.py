# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.scheduling.pipeline.token_budget import DynamicTokenBudget


def test_a_prompt_is_spread_over_the_micro_batches():
    budget = DynamicTokenBudget()
    assert [budget.next_prefill_share(4, new) for new in (258, 0, 0, 0, 0)] == [65, 65, 64, 64, 0]


def test_a_new_prompt_joins_what_is_still_owed():
    budget = DynamicTokenBudget()
    assert budget.next_prefill_share(4, 256) == 64
    assert [budget.next_prefill_share(4, new) for new in (64, 0, 0, 0)] == [64] * 4


def test_what_a_micro_batch_could_not_use_goes_to_the_next():
    budget = DynamicTokenBudget()
    budget.next_prefill_share(2, 100)
    budget.give_back(20)
    assert budget.num_owed_tokens == 70
    assert [budget.next_prefill_share(2, 0) for _ in range(2)] == [70, 0]


def test_nothing_to_do_is_no_budget():
    assert DynamicTokenBudget().next_prefill_share(4, 0) == 0


calls = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 5000), st.floats(0, 1)), max_size=40)


@given(calls)
def test_no_token_is_lost_or_invented(calls):
    budget, announced, used = DynamicTokenBudget(), 0, 0
    for number, new, used_share in calls:
        share = budget.next_prefill_share(number, new)
        announced += new
        num_used = int(share * used_share)
        used += num_used
        budget.give_back(share - num_used)
        assert share >= 0
        assert budget.num_owed_tokens == announced - used
    for _ in range(10):  # more than there are shares
        used += budget.next_prefill_share(9, 0)
    assert used == announced


@given(st.integers(1, 16), st.integers(0, 100_000))
def test_shares_differ_by_one_token_at_most(number, new):
    budget = DynamicTokenBudget()
    shares = [budget.next_prefill_share(number, new if i == 0 else 0) for i in range(number)]
    assert sum(shares) == new
    assert max(shares) - min(shares) <= 1
