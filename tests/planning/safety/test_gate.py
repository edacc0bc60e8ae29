# SPDX-License-Identifier: Apache-2.0
"""The safety gate: what it refuses and why, what it lets pass, and that it stays shut."""

import math
from dataclasses import replace

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.skill import SkillCall
from llm_planner.language.parser import IncrementalParser, parse
from llm_planner.language.syntax import Call, Closing, Comparison, If, Loop, Name, Number
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.effect import Home
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.model import Pose, Skill

TELLO, INDY7 = RobotLibrary().get("tello"), RobotLibrary().get("indy7")


def admit(text, model=TELLO, **kwargs):
    """Returns the calls of all statements of a plan."""
    gate = SafetyGate(model, **kwargs)
    return [call for statement in parse(text) for call in gate.admit(statement)]


def refusal(plan, model=TELLO, **kwargs):
    gate = SafetyGate(model, **kwargs)
    try:
        for statement in parse(plan) if isinstance(plan, str) else plan:
            gate.admit(statement)
    except PlannerError as error:
        return error
    pytest.fail(f"admitted {plan!r}")


@pytest.mark.parametrize(
    "plan",
    [
        "mf(100);tc(90);",
        "s(cat);g(cat);",
        "g(cat);mf(500);",  # 4.5 m at most, then 5 m
        "g(cat);mu(100);md(100);",  # an approach is level
        "8{mf(500);tc(90);}",  # a square, twice
        "s(cat);8{mf(500);tc(90);}",  # the same, heading wherever
        "o(cat);100{mf(500);mb(500);}",
        "mu(200);md(280);",
        "?s(cat){g(cat);mb(500);}?s(dog){g(dog);}",
        "8{?iv(cat){g(cat);->True;}tc(45);}->False;",
        "8{?iv(cat){g(cat);}tc(45);}",
        "_1=sa('a tool');?_1!=False{g(_1);->_1;}->False;",
        "2{_1=sa('a tool');g(_1);}g(_1);",
        "_1=p('how many cats?');?_1>2{l('many');}",
        "_1=od(cat);?_1>50&_1<300|iv(dog){tp();}",
        "g(sa('a tool'));",
        "l('first line\n second');",
        "100{tp();}",
        "ld();tk();mf(500);",
        "100{mf(500);->True;}",
    ],
)
def test_sensible_plans_pass(plan):
    assert admit(plan)


@pytest.mark.parametrize(
    ("plan", "code", "words"),
    [
        ("fly(100);", ErrorCode.UNKNOWN_SKILL, "no skill 'fly'"),
        ("2{?iv(a){rm('x');}}", ErrorCode.UNKNOWN_SKILL, "no skill 'rm'"),
        ("?fly(3){tp();}", ErrorCode.UNKNOWN_SKILL, "no skill 'fly'"),
        ("->fly(3);", ErrorCode.UNKNOWN_SKILL, "no skill 'fly'"),
        ("g(fly(3));", ErrorCode.UNKNOWN_SKILL, "no skill 'fly'"),
        ("mf();", ErrorCode.INVALID_ARGUMENT, "takes 1 argument(s), got 0"),
        ("mf(20,20);", ErrorCode.INVALID_ARGUMENT, "takes 1 argument(s), got 2"),
        ("mf(cat);", ErrorCode.INVALID_ARGUMENT, "must be a number"),
        ("mf('100');", ErrorCode.INVALID_ARGUMENT, "must be a number"),
        ("mf(True);", ErrorCode.INVALID_ARGUMENT, "must be a number"),
        ("_1=od(cat);mf(_1);", ErrorCode.INVALID_ARGUMENT, "must be a number, not _1"),
        ("mf(od(cat));", ErrorCode.INVALID_ARGUMENT, "must be a number"),
        ("g(5);", ErrorCode.INVALID_ARGUMENT, "must be a name"),
        ("g(False);", ErrorCode.INVALID_ARGUMENT, "must be a name"),
        ("g(iv(cat));", ErrorCode.INVALID_ARGUMENT, "must be a name"),
        ("_1=od(cat);g(_1);", ErrorCode.INVALID_ARGUMENT, "must be a name"),
        ("l(hello);", ErrorCode.INVALID_ARGUMENT, "must be a quoted text"),
        ("l('\x1b[2J');", ErrorCode.INVALID_ARGUMENT, "control characters"),
        ("g('a\nb');", ErrorCode.INVALID_ARGUMENT, "control characters"),
        ("g('');", ErrorCode.ARGUMENT_OUT_OF_RANGE, "1 to 64 characters"),
        (f"g('{'x' * 65}');", ErrorCode.ARGUMENT_OUT_OF_RANGE, "1 to 64 characters, not 65"),
        ("mf(19.99);", ErrorCode.ARGUMENT_OUT_OF_RANGE, "from 20 to 500 cm, not 19.99"),
        ("mf(9999);", ErrorCode.ARGUMENT_OUT_OF_RANGE, "not 9999"),
        ("mf(-100);", ErrorCode.ARGUMENT_OUT_OF_RANGE, "not -100"),
        ("d(61);", ErrorCode.ARGUMENT_OUT_OF_RANGE, "from 0 to 60 s"),
        ("_1=tp();", ErrorCode.INVALID_ARGUMENT, "returns nothing"),
        ("?tp(){h();}", ErrorCode.INVALID_ARGUMENT, "returns nothing"),
        ("100{tc(1.4);}", ErrorCode.ARGUMENT_OUT_OF_RANGE, "must be whole"),  # a Tello turns by whole degrees
        ("?iv(a)>5{h();}", ErrorCode.INVALID_ARGUMENT, "needs numbers"),
        ("?_1==1{h();}", ErrorCode.INVALID_ARGUMENT, "_1 may have no value"),
        ("?od(a){h();}", ErrorCode.INVALID_ARGUMENT, "neither true nor false"),
        ("?'x'{h();}", ErrorCode.INVALID_ARGUMENT, "neither true nor false"),
        ("?od(a)==True{h();}", ErrorCode.INVALID_ARGUMENT, "compares a number with a boolean"),
        ("?sa('x')>'y'{h();}", ErrorCode.INVALID_ARGUMENT, "needs numbers"),
        ("g(_1);", ErrorCode.INVALID_ARGUMENT, "_1 may have no value"),
        ("->_1;", ErrorCode.INVALID_ARGUMENT, "_1 may have no value"),
        ("?iv(a){_1=sa('x');}g(_1);", ErrorCode.INVALID_ARGUMENT, "_1 may have no value"),
        ("2{g(_1);_1=sa('x');}", ErrorCode.INVALID_ARGUMENT, "_1 may have no value"),
        ("_1=sa('x');?iv(a){_1=od(b);}g(_1);", ErrorCode.INVALID_ARGUMENT, "_1 changes its type"),
        ("101{tp();}", ErrorCode.LOOP_TOO_LONG, "101 rounds"),
        ("100{100{tp();}}", ErrorCode.PLAN_TOO_LONG, "10000 skill calls"),
        ("100{100{}}", ErrorCode.PLAN_TOO_LONG, "10000 skill calls"),
        ("tp();" * 501, ErrorCode.PLAN_TOO_LONG, "501 skill calls"),
        ("100{?iv(a)&iv(b)&iv(c)&iv(d)&iv(e){tp();}}", ErrorCode.PLAN_TOO_LONG, "600 skill calls"),
        ("2{2{2{2{tp();}}}}", ErrorCode.PLAN_TOO_LONG, "nested deeper than 3"),
        ("g(sa(sa(sa('x'))));", ErrorCode.PLAN_TOO_LONG, "nested deeper than 3"),
        ("2{->True;}tp();", ErrorCode.PLAN_SYNTAX, "after it has returned"),
    ],
)
def test_what_is_refused_whatever_the_position(plan, code, words):
    error = refusal(plan)
    assert (error.code, words in error.message) == (code, True), error


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ("mf(500);mf(500);mf(20);", "x = 10.20 m, 0.20 m beyond the limit of 10 m"),
        ("tu(90);mb(500);mb(500);mb(20);", "y = -10.20 m"),
        ("mu(201);", "z = 3.01 m, 0.01 m beyond the limit of 3 m"),
        ("md(81);", "z = 0.19 m"),
        ("md(100);", "z = 0.00 m"),  # landing is what ld is for
        ("md(500);", "z = -4.00 m"),
        ("3{mf(500);}", "x = 15.00 m"),
        ("21{mf(50);}", "x = 10.50 m"),
        ("s(cat);2{mf(500);}mf(20);", "m beyond"),
        ("?s(cat){tp();}2{mf(500);}mb(500);2{mr(500);}", "m beyond"),
        ("g(cat);mf(500);mf(60);", "m beyond"),
        ("mf(500);?iv(a){mf(500);}mf(20);", "x = 10.20 m"),
        ("6{?iv(a){mf(500);}tc(90);}", "m beyond"),
        ("?iv(a)&s(b){h();}mf(500);mf(500);2{?iv(c){tc(90);}}mf(500);", "m beyond"),
        ("?iv(a){ld();}mf(500);mf(500);mf(500);", "x = 15.00 m"),
        ("8{?iv(cat){g(cat);}tc(45);}mf(100);", "m beyond"),
        ("mu(150);?iv(a){mu(100);}", "z = 3.50 m"),
        ("move_up(250);", "z = 3.50 m"),
        ("mf(500);mf(500);ld();mb(500);tk();mf(20);", "x = 10.20 m"),
        ("ld();tk();mu(201);", "z = 3.01 m"),
        ("mu(100);ld();tk();mu(201);", "z = 3.01 m"),
        ("?iv(a){ld();}tk();mu(201);", "z = 3.01 m"),
    ],
)
def test_motions_that_could_leave_the_geofence_are_refused(plan, words):
    error = refusal(plan)
    assert (error.code, words in error.message) == (ErrorCode.GEOFENCE_VIOLATED, True), error


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1e300, -0.0])
def test_numbers_that_no_parser_makes(number):
    assert refusal((Call("mf", (Number(number),)),)).code in (
        ErrorCode.INVALID_ARGUMENT,
        ErrorCode.ARGUMENT_OUT_OF_RANGE,
    )


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        (Loop(0, (Call("tp"),)), ErrorCode.LOOP_TOO_LONG),
        (Loop(-5, (Call("tp"),)), ErrorCode.LOOP_TOO_LONG),
        (Loop(10**5000, (Call("tp"),)), ErrorCode.LOOP_TOO_LONG),
        (If(Comparison(Number(1.0), ">=", Number(2.0)), ()), ErrorCode.INVALID_ARGUMENT),
        (If(Comparison(Number(math.nan), ">", Number(2.0)), ()), ErrorCode.INVALID_ARGUMENT),
        (Call("g", (Name("\x00"),)), ErrorCode.INVALID_ARGUMENT),
    ],
)
def test_syntax_trees_that_no_parser_makes(statement, code):
    assert refusal((statement,)).code is code


def test_calls_are_flat_canonical_and_in_order_of_appearance():
    plan = "2{move_forward(50);?iv(cat)&od('cat')>50{g(cat);}}_1=sa('x');goto(_1);l('done');"
    assert admit(plan) == [
        SkillCall("mf", (50.0,)),
        SkillCall("iv", ("cat",)),
        SkillCall("od", ("cat",)),
        SkillCall("g", ("cat",)),
        SkillCall("sa", ("x",)),
        SkillCall("g", ("_1",)),
        SkillCall("l", ("done",)),
    ]
    assert admit("g(sa('x'));") == [SkillCall("g", ("sa('x')",)), SkillCall("sa", ("x",))]


def test_a_gate_that_has_refused_stays_shut():
    gate = SafetyGate(TELLO)
    gate.admit(parse("mf(100);")[0])
    with pytest.raises(PlannerError) as first:
        gate.admit(parse("mf(501);")[0])
    with pytest.raises(PlannerError) as second:
        gate.admit(parse("h();")[0])
    assert (second.value.code, second.value.message) == (first.value.code, first.value.message)


def test_a_gate_that_could_not_judge_stays_shut():
    gate = SafetyGate(TELLO)
    with pytest.raises(AttributeError):
        gate.admit("not a statement")
    with pytest.raises(PlannerError, match="could not be judged"):
        gate.admit(parse("h();")[0])


def test_a_refused_statement_changes_nothing_and_leaves_nothing():
    assert admit("mf(500);mf(500);") == [SkillCall("mf", (500.0,))] * 2
    assert "x = 10.20 m" in refusal("mf(500);mf(500);3{tp();mf(20);}").message


def test_the_start_pose_counts():
    near_the_fence = Pose(x_m=9.0, y_m=0.0, z_m=1.0, yaw_deg=180.0)
    assert admit("mf(500);", start_pose=near_the_fence)
    assert "x = 10.50 m" in refusal("mb(150);", start_pose=near_the_fence).message


def test_on_the_floor_only_a_take_off_moves_a_drone():
    assert admit("ld();9{mf(500);}tk();mf(500);mf(500);")
    assert "x = 10.20 m" in refusal("ld();9{mf(500);}tk();mf(500);mf(500);mf(20);").message
    on_the_floor = Pose(x_m=0.0, y_m=0.0, z_m=0.0, yaw_deg=0.0)
    assert admit("tk();mu(200);", start_pose=on_the_floor)


def test_a_plan_that_gives_up_goes_nowhere_from_there():
    admit("?s(cat)==False{mf(500);fail('no cat');}mf(500);mf(450);")  # 10 m in all, if it did not end the plan
    assert refusal("fail('no');mf(50);").code is ErrorCode.PLAN_SYNTAX
    assert refusal("fail('a\\tb\x07');").code is ErrorCode.INVALID_ARGUMENT


@pytest.mark.parametrize("plan", ["mf(50);unclear('x');", "?iv(cat){unclear('x');}", "unclear('x');mf(50);"])
def test_a_plan_is_unclear_as_a_whole_or_not_at_all(plan):
    assert refusal(plan).code is ErrorCode.PLAN_SYNTAX
    assert admit("unclear('x');") == []


def test_there_and_back_with_unknown_heading_ends_where_it_began():
    assert admit("s(cat);100{mf(500);tc(180);mf(500);tc(180);}mf(500);mf(500);")
    assert refusal("s(cat);mf(500);s(dog);mf(500);s(cat);mf(20);").code is ErrorCode.GEOFENCE_VIOLATED


def test_many_branches_take_little_time_and_merge_to_the_safe_side():
    assert admit("?iv(a){mf(20);}" * 30)
    assert refusal("?iv(a){tc(45);}" * 20 + "3{mf(500);}").code is ErrorCode.GEOFENCE_VIOLATED


def test_the_way_home_is_judged():
    """No model flies home to the floor by such a skill: only landing leads down there, and its file is refused."""
    home = Skill(name="home", description="fly home", effect=Home(), duration=TELLO.skills["ld"].duration)
    model = replace(TELLO, skills={**TELLO.skills, "home": home})
    assert admit("mf(500);home();mf(500);mf(500);", model)
    with pytest.raises(ValueError, match="effect home flies to the start, which is at 0 m, outside the geofence"):
        replace(model, start=replace(TELLO.start, z_m=0.0))


@pytest.mark.parametrize(
    "plan", ["pick(red_box);place(red_box,bin);", "?iv(a){push(a,table);}home();open();", "wait(60);"]
)
def test_arm_plans_pass(plan):
    assert admit(plan, INDY7)


@pytest.mark.parametrize(
    ("plan", "code"),
    [
        ("pick();", ErrorCode.INVALID_ARGUMENT),
        ("place(a);", ErrorCode.INVALID_ARGUMENT),
        ("wait(61);", ErrorCode.ARGUMENT_OUT_OF_RANGE),
        ("mf(100);", ErrorCode.UNKNOWN_SKILL),
    ],
)
def test_arm_plans_are_refused(plan, code):
    assert refusal(plan, INDY7).code is code


def test_after_a_failure_it_goes_on_from_where_the_robot_is():
    gate = SafetyGate(TELLO)
    first, second, third = parse("mf(500);mf(400);mf(400);")
    gate.admit(first)
    mark = gate.mark
    gate.admit(second)
    gate.restart(mark, Pose(x_m=5.0, z_m=1.0))
    gate.admit(third)  # from 9 m it would have been outside
    with pytest.raises(PlannerError, match="x = "):
        gate.admit(first)
    gate = SafetyGate(TELLO)
    gate.admit(parse("mf(20);")[0])
    gate.restart(gate.mark, None)
    gate.admit(parse("g(cat);")[0])  # inside the fence, wherever it starts
    with pytest.raises(PlannerError, match="beyond the limit"):
        gate.admit(parse("mf(20);")[0])


@pytest.mark.parametrize("plan", ["g(cat);", "tk();g(cat);", "ld();"])
def test_anywhere_is_in_the_air_or_on_the_floor(plan):
    gate = SafetyGate(TELLO)
    gate.admit(parse("mf(20);")[0])
    gate.restart(gate.mark, None)
    for statement in parse(plan):
        gate.admit(statement)


def test_failing_does_not_lengthen_a_plan_beyond_its_limits():
    gate = SafetyGate(TELLO)
    mark = gate.mark
    statement = parse("50{tp();}")[0]
    for _ in range(10):
        gate.admit(statement)
        gate.restart(mark, Pose(z_m=1.0))
    with pytest.raises(PlannerError) as caught:
        gate.admit(statement)
    assert caught.value.code is ErrorCode.PLAN_TOO_LONG


def test_a_plan_that_had_returned_goes_on_if_it_failed():
    gate = SafetyGate(TELLO)
    mark = gate.mark
    gate.admit(parse("->True;")[0])
    gate.restart(mark, Pose(z_m=1.0))
    assert gate.admit(parse("tp();")[0])


def part_by_part(text, gate=None):
    """Returns the gate that has admitted the parts of a text."""
    gate = gate or SafetyGate(TELLO)
    for part in IncrementalParser(opens_blocks=True).feed(text):
        gate.admit(part)
    return gate


def code_of(function, *args, **kwargs):
    """Returns the code of what a call raises; None if it does not raise."""
    try:
        function(*args, **kwargs)
    except PlannerError as error:
        return error.code
    return None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("?iv(cat){mf(500);}mf(500);mf(50);", ErrorCode.GEOFENCE_VIOLATED),  # whichever way it went
        ("?iv(cat){mf(500);mf(500);mf(50);", ErrorCode.GEOFENCE_VIOLATED),
        ("?g(cat)==True{", ErrorCode.INVALID_ARGUMENT),
        ("?iv(cat)>3{", ErrorCode.INVALID_ARGUMENT),
        ("?unknown(cat){", ErrorCode.UNKNOWN_SKILL),
        ("?iv(cat){_1=od(cat);}?_1>3{", ErrorCode.INVALID_ARGUMENT),  # assigned in a branch only
        ("?iv(a){?iv(b){?iv(c){?iv(d){", ErrorCode.PLAN_TOO_LONG),
        ("?iv(a){?iv(b){?iv(c){2{", None),
        ("?iv(a){?iv(b){?iv(c){2{tp();}", ErrorCode.PLAN_TOO_LONG),
        ("?iv(cat){100{tp();}100{tp();}100{tp();}100{tp();}99{tp();}", None),
        ("?iv(cat){100{tp();}100{tp();}100{tp();}100{tp();}100{tp();}", ErrorCode.PLAN_TOO_LONG),
        ("?True{unclear('what');", ErrorCode.PLAN_SYNTAX),
        ("?iv(cat){->True;tp();}tp();", None),
        ("?iv(cat){_1=od(cat);?_1>3{tp();}}", None),
    ],
)
def test_every_beginning_of_a_condition_is_judged_by_itself(text, code):
    assert code_of(part_by_part, text) is code


def test_a_block_ends_once_and_none_is_open_behind_a_failure():
    gate = part_by_part("?iv(cat){_1=od(cat);?iv(dog){")
    before = gate.mark
    part_by_part("tp();", gate)
    gate.restart(before, None)
    assert gate.mark.variables == before.variables  # the robot was in the block, so it has a value
    with pytest.raises(PlannerError, match="has not begun"):
        gate.admit(Closing())


def test_a_drone_that_may_have_taken_off_in_a_block_may_fly_behind_it():
    """As where the condition comes as a whole."""
    on_floor = Pose(x_m=0.0, y_m=0.0, z_m=0.0)
    for text in ("?iv(cat){tk();}mf(100);", "?iv(cat){mf(100);}", "?iv(cat){tk();mf(100);}"):
        assert code_of(part_by_part, text, SafetyGate(TELLO, on_floor)) is code_of(admit, text, start_pose=on_floor)


@pytest.mark.parametrize("pose", [Pose(y_m=math.nan, z_m=1.0), Pose(x_m=math.nan, z_m=1.0), Pose(z_m=math.inf)])
def test_nothing_moves_from_a_pose_that_is_no_number(pose):
    assert refusal("mf(100);", start_pose=pose).code is ErrorCode.GEOFENCE_VIOLATED


@pytest.mark.parametrize("plan", ["unclear('a\x1b[31mb');", "fail('a\x1b[31mb');"])
def test_what_is_said_of_a_plan_has_no_control_characters(plan):
    assert "control characters" in refusal(plan).message
