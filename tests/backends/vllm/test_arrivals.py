# SPDX-License-Identifier: Apache-2.0
"""What comes back from steps in flight, and which request it belongs to."""

from llm_planner.backends.vllm.arrivals import Arrivals
from llm_planner.backends.vllm.names import Names


def test_what_comes_after_a_segment_is_held_back_until_the_generation_runs_again():
    arrivals = Arrivals()
    arrivals.of("a").token_ids.append(1)
    arrivals.of("b").token_ids.append(2)
    assert set(arrivals.take(suspended=["b"])) == {"a"}
    arrivals.of("b").token_ids.append(3)
    assert arrivals.take(suspended=["b"]) == {}
    assert arrivals.take(suspended=[])["b"].token_ids == [2, 3]
    assert arrivals.take(suspended=[]) == {}


def test_forgets_what_has_ended():
    arrivals = Arrivals()
    arrivals.of("a").token_ids.extend([1, 2])
    arrivals.forget("a")
    arrivals.forget("a")
    assert arrivals.take(suspended=[]) == {}


def test_a_step_in_flight_of_an_ended_request_is_not_the_next_one_of_its_name():
    names = Names()
    first = names.give("warm-up")
    second = names.give("warm-up")
    assert first != second
    assert names.outer(first) is None
    assert names.outer(second) == "warm-up"
    assert names.inner("warm-up") == second
    names.forget("warm-up")
    assert names.outer(second) is None
