# SPDX-License-Identifier: Apache-2.0
"""Hostile plans by the thousand: none that the gate admits breaks a limit when an independent judge flies it."""

import random
from collections import Counter

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.language.errors import PlanSyntaxError
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.language.syntax import Opening
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.interpreter import run_plan
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.world import World, WorldObject
from llm_planner.sim.kinematics import KinematicDriver
from tests.planning.flight import MOVES, BrokenLimitError, Flight
from tests.planning.plans import NAMES, Hostile, cut_off, in_parts

TELLO, INDY7 = RobotLibrary().get("tello"), RobotLibrary().get("indy7")
FENCE = (TELLO.geofence.x_m, TELLO.geofence.y_m, TELLO.geofence.z_m)
START = (TELLO.start.x_m, TELLO.start.y_m, TELLO.start.z_m, TELLO.start.yaw_deg)
NUM_TREES, NUM_TEXTS, NUM_COURSES, NUM_PARTED = 10_000, 3_000, 4, 4_000


def admitted(plan, model=TELLO):
    """Returns the statements that pass, up to the first refusal, and its code."""
    gate, passed = SafetyGate(model), []
    try:
        for statement in plan:
            gate.admit(statement)
            passed.append(statement)
    except PlannerError as error:
        return tuple(passed), error.code
    return tuple(passed), ErrorCode.NONE


def fly(plan, rng):
    """Returns the limit that a plan breaks on one of some courses, or an empty string."""
    for extreme in (0.0, *[0.8] * (NUM_COURSES - 1)):
        try:
            Flight(rng, extreme, START, FENCE).fly(plan)
        except BrokenLimitError as broken:
            return str(broken)
    return ""


def admitted_in_parts(plan, model=TELLO):
    """Returns the parts that pass up to the first refusal, calls and gate behind each whole statement, and the code."""
    gate, passed, behind = SafetyGate(model), [], []
    try:
        for statement in plan:
            calls = ()
            for part in in_parts(statement):
                calls += gate.admit(part)
                passed.append(part)
            behind.append((calls, gate.mark))
    except PlannerError as error:
        return passed, behind, error.code
    return passed, behind, ErrorCode.NONE


def test_a_plan_in_parts_is_admitted_exactly_where_the_whole_is_and_every_beginning_of_it_is_safe():
    rng = random.Random(21)
    num_refused_inside, num_passed = 0, 0
    for i in range(NUM_PARTED):
        plan = Hostile(rng, TELLO, poison=rng.choice((0.0, 0.0, 0.01, 0.1))).plan(max_statements=rng.choice((2, 6)))
        statements, code = admitted(plan)
        parts, behind, code_in_parts = admitted_in_parts(plan)
        assert (code is ErrorCode.NONE) == (code_in_parts is ErrorCode.NONE), f"plan {i}: {to_text(plan)}"
        gate = SafetyGate(TELLO)
        assert behind == [(gate.admit(statement), gate.mark) for statement in statements]
        started = cut_off(parts)
        broken = fly(started, rng)
        assert not broken, f"plan {i}: {broken}: {to_text(started)}"
        num_refused_inside += len(started) > len(statements)
        num_passed += code is ErrorCode.NONE and any(isinstance(part, Opening) for part in parts)
    assert num_refused_inside > NUM_PARTED / 50  # refused in the midst of a block of which a part had passed
    assert num_passed > NUM_PARTED / 50


def test_no_hostile_syntax_tree_passes():
    rng = random.Random(20)
    codes, num_moves, num_broken = Counter(), 0, 0
    for i in range(NUM_TREES):
        plan = Hostile(rng, TELLO, poison=rng.choice((0.0, 0.0, 0.01, 0.1))).plan(max_statements=rng.choice((2, 6, 12)))
        passed, code = admitted(plan)
        codes[code] += 1
        broken = fly(passed, rng)
        assert not broken, f"plan {i}: {broken}: {to_text(passed)}"
        num_moves += any(name + "(" in to_text(passed) for name in MOVES)
        num_broken += code is not ErrorCode.NONE and fly(plan[: len(passed) + 1], rng) != ""
    # the hunt was a hunt: many plans passed, many moved, and every kind of refusal was met
    assert codes[ErrorCode.NONE] > NUM_TREES / 10
    assert num_moves > NUM_TREES / 4
    assert num_broken > NUM_TREES / 4
    assert all(code // 100 in (0, 2) for code in codes)
    assert set(codes) >= {
        ErrorCode.UNKNOWN_SKILL,
        ErrorCode.INVALID_ARGUMENT,
        ErrorCode.ARGUMENT_OUT_OF_RANGE,
        ErrorCode.GEOFENCE_VIOLATED,
        ErrorCode.PLAN_TOO_LONG,
        ErrorCode.LOOP_TOO_LONG,
    }


def mutated(rng, text):
    """Returns ``text`` with some characters changed, moved or doubled."""
    for _ in range(rng.randint(1, 3)):
        i, j = sorted(rng.choices(range(len(text) + 1), k=2))
        j = min(j, i + 12)
        insert = rng.choice(("", "0", "9", "-", "5{", "}", ";", "mf(500);", "'", "_1", "->", "ld();", text[i:j] * 2))
        text = text[:i] + insert + text[rng.choice((i, j)) :]
    return text


def test_no_hostile_text_passes():
    rng = random.Random(21)
    num_parsed = num_passed = 0
    for _ in range(NUM_TEXTS):
        text = mutated(rng, to_text(Hostile(rng, TELLO, poison=0.0).plan()))
        try:
            plan = parse(text)
        except PlanSyntaxError:
            continue
        passed, code = admitted(plan)
        broken = fly(passed, rng)
        assert not broken, f"{broken}: {text}"
        num_parsed += 1
        num_passed += code is ErrorCode.NONE
    assert num_parsed > NUM_TEXTS / 10
    assert num_passed > NUM_TEXTS / 50


def test_without_branches_the_gate_refuses_no_more_than_it_must():
    rng = random.Random(22)
    counts = Counter()
    skills = [TELLO.skills[name] for name in ("mf", "mb", "ml", "mr", "mu", "md", "tc", "tu", "tp")]
    for _ in range(500):
        maker = Hostile(rng, TELLO, poison=0.0)
        plan = tuple(maker.call(rng.choice(skills)) for _ in range(rng.randint(1, 12)))
        is_admitted = admitted(plan)[1] is ErrorCode.NONE
        assert is_admitted == (fly(plan, rng) == "")
        counts[is_admitted] += 1
    assert min(counts.values()) > 50


def test_the_kinematic_driver_never_has_to_stop_an_admitted_motion_at_the_fence():
    rng = random.Random(23)
    num_flown = 0
    for _ in range(150):
        plan, _ = admitted(Hostile(rng, TELLO, poison=0.0).plan(max_statements=10))
        things = [
            WorldObject(name=name, position_m=(rng.uniform(-9, 9), rng.uniform(-9, 9), rng.uniform(0, 2)))
            for name in NAMES
        ]
        outcome = run_plan(plan, KinematicDriver(TELLO, World(things), rng))
        stopped = [c.call for c in outcome.calls if "geofence" in c.result.reason and c.call.name not in ("a", "g")]
        assert not stopped, (to_text(plan), stopped)
        num_flown += len(outcome.calls)
    assert num_flown > 300


def test_hostile_arm_plans():
    rng = random.Random(24)
    codes = Counter(admitted(Hostile(rng, INDY7, poison=0.05).plan(), INDY7)[1] for _ in range(1_000))
    assert codes[ErrorCode.NONE] > 100
    assert codes[ErrorCode.GEOFENCE_VIOLATED] == 0


@pytest.mark.parametrize("model", [TELLO, INDY7], ids=lambda model: model.name)
def test_the_gate_is_deterministic(model):
    plans = [Hostile(random.Random(seed), model, poison=0.05).plan() for seed in range(200)]
    assert [admitted(plan, model) for plan in plans] == [admitted(plan, model) for plan in plans]
