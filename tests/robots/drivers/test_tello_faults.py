# SPDX-License-Identifier: Apache-2.0
"""Whatever the network does: no motion is repeated, no success is invented, everything ends."""

import math
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.robots.driver import SkillStatus
from llm_planner.robots.drivers.tello_sockets import MAX_READ, _read
from llm_planner.robots.drivers.tello_state import parse_state
from llm_planner.sim.emulator.faults import Faults
from tests.robots.drivers.test_tello import apart_m
from tests.robots.drivers.virtual import Pilot

CALLS = (("mf", 100.0), ("mb", 20.0), ("tc", 90.0), ("tu", 7.0), ("mr", 60.0), ("ld",), ("tk",), ("h",), ("d", 1.0))
# A network that doubles a command makes any drone obey twice; Wi-Fi drops doubles. So only answers are doubled here.
SHARES = st.sampled_from([0.0, 0.1, 0.3, 0.6])
COMMANDS = st.builds(Faults, lost=st.sampled_from([0.0, 0.1, 0.3]), late=SHARES)
ANSWERS = st.builds(Faults, lost=SHARES, late=SHARES, duplicated=SHARES, garbage=st.sampled_from([0.0, 0.1]))
STATES = st.builds(Faults, lost=st.sampled_from([0.0, 0.3]), garbage=st.sampled_from([0.0, 0.1]))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(CALLS), min_size=2, max_size=6), COMMANDS, ANSWERS, STATES, st.integers(0, 10**6))
def test_a_success_is_a_success_and_a_motion_happens_at_most_once(calls, commands, answering, states, seed):
    pilot = Pilot(commands, seed, answering=answering, state_faults=states)
    for call in calls:
        num_before = pilot.air.firmware.num_motions
        num_sent = len(pilot.motions)
        result = pilot.do(*call)
        assert len(pilot.motions) - num_sent <= 1
        if result.status is SkillStatus.FAILED:
            return  # its executor ends the goal; where the drone is is an estimate from now on
        if call[0] not in ("h", "d"):
            assert pilot.air.firmware.num_motions <= num_before + 1
            assert apart_m(pilot) < 0.06
            assert abs(pilot.driver.state.pose.yaw_deg - pilot.flight.pose.yaw_deg) % 360 < 1.5


@given(st.one_of(st.text(), st.from_regex(r"((vg[xyz]|yaw|h|bat):-?[0-9.]{0,9};){0,9}", fullmatch=True)))
def test_whatever_a_state_says_its_numbers_are_finite(text):
    state = parse_state(text, 1.0)
    if state is not None:
        assert all(map(math.isfinite, (state.speed_dm_s, state.yaw_deg, state.height_m, state.battery_percent)))


def test_a_flood_of_datagrams_keeps_no_loop_busy():
    assert len(_read(SimpleNamespace(recv=lambda _size: b"ok"))) == MAX_READ


@settings(deadline=None, max_examples=20)
@given(st.sampled_from(CALLS[:5]), COMMANDS, st.integers(0, 10**6), st.floats(0.0, 3.0))
def test_a_halted_drone_comes_to_rest_even_if_its_command_comes_after_its_stop(call, faults, seed, after_s):
    pilot = Pilot(faults, seed)
    pilot.start(*call)
    pilot.wait(after_s)
    pilot.driver.halt(pilot.air.time_s)
    stopped = pilot.do("h")
    pilot.wait(6.0)  # longer than anything is late
    assert not pilot.flight.is_moving
    if stopped.status is SkillStatus.SUCCEEDED and pilot.do("mu", 20.0).status is SkillStatus.SUCCEEDED:
        assert apart_m(pilot) < 1.0  # what the estimate of an interrupted motion lacks
