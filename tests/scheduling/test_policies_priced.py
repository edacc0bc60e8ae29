# SPDX-License-Identifier: Apache-2.0
import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import PlannerError
from llm_planner.core.request import PlanRequest
from llm_planner.core.time_utility import NORMAL, URGENT, TimeUtility
from llm_planner.scheduling.policies import make_policy, policy_names
from llm_planner.scheduling.policies.tardiness import AGEING_PER_S2

PRICED = ("pud", "gain_density", "tardiness")


@dataclass
class View:
    """A generation as policies see it."""

    request: PlanRequest
    arrival_s: float = 0.0
    order: int = 0
    num_segments: int = 0
    num_segment_steps: int = 0
    num_uncomputed_tokens: int = 1
    num_output_tokens: int = 0
    num_prompt_tokens: int = 100
    is_offloaded: bool = False
    output_bounds: tuple[int, int] = (1, 512)
    predicted_bounds: tuple[int, int] = (1, 512)
    robot_idle_at_s: float = 0.0

    @property
    def is_decoding(self):
        return self.num_uncomputed_tokens == 1


@dataclass
class Pace:
    """A forecast that says what it is told."""

    generation_s: float = 0.09
    network_latency_s: float = 0.008
    by_order: dict[int, float] = field(default_factory=dict)

    def generation_time_s(self, generation):
        return self.by_order.get(generation.order, self.generation_s)


def view(time_utility=NORMAL, **fields):
    request = PlanRequest(
        request_id="r", robot_id="robot", robot_model="tello", instruction="go", time_utility=time_utility
    )
    return View(request, **fields)


def policy(name, **pace):
    made = make_policy(name)
    made.forecast = Pace(**pace)
    return made


def utility_of(made, generation, now_s):
    """What its next segment will be worth if it runs from now on."""
    done_s = now_s + made.forecast.generation_time_s(generation)
    return generation.request.time_utility.after_ert(done_s - made.due_s(generation))


times = st.floats(-1e4, 1e4)
utilities = st.builds(TimeUtility, st.floats(0, 100), st.floats(-1e3, 0), st.floats(1e-3, 1e3))
views = st.builds(
    view,
    utilities,
    arrival_s=times,
    order=st.integers(0, 1000),
    num_segments=st.integers(0, 2),
    robot_idle_at_s=times,
)


@pytest.mark.parametrize("name", policy_names())
@given(generation=views, now_s=times, generation_s=st.floats(0, 1e3))
def test_ranks_are_finite_and_end_with_the_order(name, generation, now_s, generation_s):
    made = make_policy(name)
    made.forecast = Pace(generation_s)
    rank = made.rank(generation, now_s)
    assert all(map(math.isfinite, rank))
    assert rank[-1] == generation.order


@pytest.mark.parametrize("name", ["pud", "tardiness"])
@given(generation=views, now_s=times, later_s=st.floats(0, 100))
def test_nobody_becomes_less_pressing_by_waiting(name, generation, now_s, later_s):
    made = policy(name)
    assert made.rank(generation, now_s + later_s) <= made.rank(generation, now_s)


@pytest.mark.parametrize("name", PRICED)
@given(generation=views, now_s=times)
def test_utility_never_rises_with_time(name, generation, now_s):
    made = policy(name)
    assert utility_of(made, generation, now_s + 1.0) <= utility_of(made, generation, now_s)


@pytest.mark.parametrize("name", PRICED)
@given(now_s=st.floats(0, 2))
def test_urgent_goes_before_normal_of_the_same_age(name, now_s):
    made = policy(name)
    if utility_of(made, view(URGENT), now_s) > 0:
        assert made.rank(view(URGENT, order=1), now_s) < made.rank(view(NORMAL, order=0), now_s)


@pytest.mark.parametrize("name", ["pud", "tardiness"])
@given(slack_s=st.floats(0.001, 0.9), more_s=st.floats(0.001, 5.0))
def test_less_slack_goes_first(name, slack_s, more_s):
    made = policy(name)
    early = view(order=1, num_segments=1, robot_idle_at_s=0.098 + slack_s)
    late = view(order=0, num_segments=1, robot_idle_at_s=0.098 + slack_s + more_s)
    assert made.rank(early, 0.0) < made.rank(late, 0.0)


@pytest.mark.parametrize("name", ["pud", "tardiness"])
def test_among_the_late_the_one_that_still_loses_most_goes_first(name):
    made = policy(name)
    long_late_normal, just_late_urgent = view(NORMAL, order=0, arrival_s=-50.0), view(URGENT, order=1, arrival_s=-1.0)
    assert utility_of(made, long_late_normal, 0.0) < utility_of(made, just_late_urgent, 0.0) < 0
    assert made.rank(just_late_urgent, 0.0) < made.rank(long_late_normal, 0.0)


@pytest.mark.parametrize("name", PRICED)
def test_the_shorter_one_goes_first(name):
    made = policy(name, by_order={0: 0.2, 1: 0.1})
    assert made.rank(view(URGENT, order=1, arrival_s=-0.2), 0.0) < made.rank(view(URGENT, order=0, arrival_s=-0.2), 0.0)


@given(lateness_s=st.floats(0.0, 1e3), generation_s=st.floats(0.02, 5.0), lesser=utilities, greater=utilities)
def test_a_late_one_is_passed_only_by_what_is_due_soon_after_it(lateness_s, generation_s, lesser, greater):
    made = policy("tardiness", by_order={0: generation_s, 1: 0.05})
    difference = (1e-3 - greater.alpha) / 0.05 - (1e-3 - lesser.alpha) / generation_s
    longest_s = max(0.0, difference) / AGEING_PER_S2
    waits = view(lesser, order=0, num_segments=1, robot_idle_at_s=0.008)
    comes = view(greater, order=1, num_segments=1, robot_idle_at_s=0.008 + 1.01 * longest_s + 1e-3)
    now_s = comes.robot_idle_at_s + lateness_s
    assert made.rank(waits, now_s) < made.rank(comes, now_s)


def test_pud_is_equation_4_while_there_is_slack():
    rank = policy("pud").rank(view(URGENT), 0.0)
    slack_s = 0.2 - 0.008 - 0.09
    assert rank == (1.0, pytest.approx(-2.0 / (0.09 * slack_s)), pytest.approx(0.192), 0)


@pytest.mark.parametrize(
    ("now_s", "priority"),
    [
        # Urgent: ERT 0.2 s, alpha -20/3, beta 2; due 0.192 s. G = 0.09 s and L = 0.192 - now - 0.09.
        (0.0, 2.0 / (0.09 * 0.102)),  # L = 0.102: 217.86
        (0.1, 2.0 / (0.09 * 0.002)),  # L = 0.002: 11,111; it explodes as L falls to 0
        (0.252, (2.0 - 20 / 3 * 0.15) / (0.09 * -0.15)),  # L = -0.15: worth 1, and yet -74.07, behind all in time
        (0.402, 0.0),  # L = -0.3: worth nothing
        (0.702, (2.0 - 20 / 3 * 0.6) / (0.09 * -0.6)),  # L = -0.6: worth -2; two minus signs make it +37.04
    ],
)
def test_the_printed_density_is_equation_4_to_the_letter(now_s, priority):
    rank = policy("pud_printed").rank(view(URGENT, order=3), now_s)
    assert rank == (pytest.approx(-priority, rel=1e-3, abs=1e-3), 3)


def test_the_printed_density_of_a_normal_request():
    rank = policy("pud_printed").rank(view(NORMAL), 0.0)  # L = 1 - 0.008 - 0.09 = 0.902, worth 1
    assert rank == (pytest.approx(-12.3183, rel=1e-4), 0)


@pytest.mark.parametrize(
    ("now_s", "priority"),
    [
        # Urgent, as above; d = now + 0.09 - 0.192.
        (0.0, 1.80607),  # d = -0.102: 2 exp(-0.102)
        (0.102, 2.0),  # d = 0: finite where the printed one has no value
        (0.252, 1.0),  # d = 0.15: 2 - 20/3 0.15
        (0.402, 0.0),
        (0.702, -2.0),  # d = 0.6: it keeps its sign
    ],
)
def test_the_authors_implementation_ranks_by_discounted_utility(now_s, priority):
    rank = policy("timelyllm_artifact").rank(view(URGENT, order=3), now_s)
    assert rank == (pytest.approx(-priority, rel=1e-5, abs=1e-9), URGENT.alpha, 3)


def test_the_authors_implementation_does_not_divide_by_the_generation_time():
    made = policy("timelyllm_artifact", by_order={0: 0.2, 1: 0.1})
    late, later = view(NORMAL, order=0, arrival_s=-1.1), view(NORMAL, order=1, arrival_s=-1.0)
    assert made.rank(late, 0.108)[0] == pytest.approx(made.rank(later, 0.108)[0] + 2 * 0.2)  # lateness alone counts


def test_of_equal_priority_the_steeper_goes_first_as_with_the_authors():
    made = policy("timelyllm_artifact")
    flat, steep = TimeUtility(1.0, -1.0, 1.0), TimeUtility(1.0, -2.0, 1.0)
    assert made.rank(view(steep, order=1), 0.0) < made.rank(view(flat, order=0), 0.0)


def test_edf_goes_by_the_first_deadline_throughout():
    edf = make_policy("edf_segment")
    assert edf.rank(view(URGENT, arrival_s=3.0, num_segments=4, robot_idle_at_s=99.0), 50.0)[0] == pytest.approx(3.2)


def test_gain_density_puts_what_has_nothing_to_gain_last():
    made = policy("gain_density")
    unschedulable = view(URGENT, order=0, arrival_s=-10.0)
    assert made.rank(view(NORMAL, order=1), 0.0) < made.rank(unschedulable, 0.0)


def test_an_unknown_policy_lists_the_known_ones():
    with pytest.raises(PlannerError, match="tardiness"):
        make_policy("lottery")
