# SPDX-License-Identifier: Apache-2.0
"""No motion that was not asked for: what a robot cannot do, what a plan that is made again may do, and the floor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.language.parser import IncrementalParser, parse
from llm_planner.planning.grammar import lark_grammar
from llm_planner.planning.prompt import PromptStyle, build_prompt
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.planning.safety.mentioned import Mentioned
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.motion_kind import motion_kind

TELLO, INDY7 = RobotLibrary().get("tello"), RobotLibrary().get("indy7")
AIR, FLOOR = Pose(z_m=1.0), Pose(z_m=0.0)


def admit(gate, plan):
    for statement in parse(plan):
        gate.admit(statement)


def replanned(first, again, model=TELLO, *, is_whole=True):
    """Returns the code with which the gate refuses a plan behind a failure of the first one; None if it does not."""
    gate = SafetyGate(model)
    mark = gate.mark
    for part in IncrementalParser(opens_blocks=True).feed(first):
        gate.admit(part)
    gate.restart(mark, AIR if model is TELLO else model.start, is_whole=is_whole)
    try:
        admit(gate, again)
    except PlannerError as refusal:
        return refusal.code
    return None


@pytest.mark.parametrize("again", ["mb(150);", "tc(90);", "g(chair);", "?iv(cat){mf(20);}", "2{mf(20);}", "tk();"])
def test_a_picture_that_fails_becomes_no_motion(again):
    assert replanned("tp();", again) is ErrorCode.UNASKED_SKILL


@pytest.mark.parametrize("again", ["tp();", "h();", "ld();", "d(2);", "l('no camera');", "?iv(cat){l('there');}"])
def test_what_moves_nothing_or_makes_safe_is_always_possible(again):
    assert replanned("tp();", again) is None


def test_a_flight_that_fails_may_go_another_way():
    assert replanned("mf(100);g(cat);", "tc(45);mu(50);g(cat);tk();") is None
    assert replanned("tk();tp();", "mf(100);") is ErrorCode.UNASKED_SKILL


@pytest.mark.parametrize(
    ("first", "again", "is_refused"),
    [
        ("tk();", "tk();g(cat);", False),
        ("?od(cat)>2{", "?od(cat)>2{g(cat);}tp();", False),
        ("mf(100);", "tk();mf(100);", False),
        ("tp();", "mb(150);", True),  # nothing says that it was to move
        ("?iv(cat){tp();}", "mb(150);", True),
    ],
)
def test_of_a_plan_that_failed_before_its_end_more_was_to_come_if_it_moved(first, again, is_refused):
    refusal = ErrorCode.UNASKED_SKILL if is_refused else None
    assert replanned(first, again, is_whole=False) is refusal


def test_the_first_whole_plan_tells_what_all_that_follow_may_have():
    gate = SafetyGate(TELLO)
    mark = gate.mark
    for is_whole in (False, True, False):
        admit(gate, "tk();")
        gate.restart(mark, AIR, is_whole=is_whole)
    with pytest.raises(PlannerError) as refused:
        admit(gate, "mf(20);")
    assert refused.value.code is ErrorCode.UNASKED_SKILL


def test_an_arm_that_fails_to_pick_may_go_on_with_its_hand():
    assert replanned("pick(cup);", "pick(cup);place(cup,plate);home();", INDY7) is None
    assert replanned("wait(2);", "pick(cup);", INDY7) is ErrorCode.UNASKED_SKILL


def test_what_the_first_plan_had_counts_for_all_that_follow():
    gate = SafetyGate(TELLO)
    mark = gate.mark
    admit(gate, "tp();")
    for _ in range(3):
        gate.restart(mark, AIR)
        with pytest.raises(PlannerError):
            SafetyGate.admit(gate, parse("mf(20);")[0])
        gate._refusal = None  # another plan


@given(st.sampled_from(sorted(TELLO.skills)), st.sampled_from(sorted(TELLO.skills)))
def test_a_new_plan_has_no_kind_of_motion_that_the_first_one_lacked(first, again):
    def text(name):
        arguments = [f"{a.minimum or 20:g}" if a.minimum is not None else "cat" for a in TELLO.skills[name].arguments]
        is_text = [a.type.value == "text" for a in TELLO.skills[name].arguments]
        quoted = [f"'{a}'" if q else a for a, q in zip(arguments, is_text, strict=True)]
        return f"{name}({','.join(quoted)});"

    code = replanned(text(first), text(again))
    had, wanted = (motion_kind(TELLO.skills[name], TELLO.kind) for name in (first, again))
    if code is None and wanted is not None:
        assert had is not None
    if wanted is None or wanted is had:
        assert code is not ErrorCode.UNASKED_SKILL


@pytest.mark.parametrize("plan", ["tp();", "2{tp();}", "?iv(cat){tp();}"])
def test_what_a_robot_cannot_do_is_refused_before_anything_moves(plan):
    gate = SafetyGate(TELLO, unsupported={"tp"})
    admit(gate, "mf(20);")
    with pytest.raises(PlannerError, match="this robot cannot tp") as refused:
        admit(gate, plan)
    assert refused.value.code is ErrorCode.NOT_ACHIEVED


def test_what_a_robot_cannot_do_leaves_grammar_and_prompt():
    assert '"tp()"' in lark_grammar(TELLO)
    assert '"tp()"' not in lark_grammar(TELLO, allowed=frozenset(TELLO.skills) - {"tp"})
    told = build_prompt(TELLO, "go", style=PromptStyle.INSTRUCT, unsupported={"tp", "nothing"})
    assert "This robot cannot: tp." in told.dynamic
    assert told.static == build_prompt(TELLO, "go", style=PromptStyle.INSTRUCT).static
    compact = build_prompt(TELLO, "go", unsupported={"tp"})
    assert compact == build_prompt(TELLO, "go")  # the bundled model was trained on exactly this


@pytest.mark.parametrize("plan", ["mf(100);", "tc(90);", "g(chair);", "?iv(cat){mf(100);}"])
def test_a_drone_on_the_floor_says_that_it_must_take_off(plan):
    gate = SafetyGate(TELLO, FLOOR)
    with pytest.raises(PlannerError, match="tell it to take off first") as refused:
        admit(gate, plan)
    assert refused.value.code is ErrorCode.NOT_ACHIEVED
    admit(SafetyGate(TELLO, FLOOR), f"tk();{plan}")
    admit(SafetyGate(TELLO, FLOOR), "l('hi');h();ld();")


@pytest.mark.parametrize("plan", ["pick('knife');", "pick('knife(');", "pick('_1 knife');", "?iv('knife('){open();}"])
def test_a_name_that_is_written_like_a_value_is_a_name(plan):
    gate = SafetyGate(INDY7, mentioned=Mentioned(["cup"]))
    with pytest.raises(PlannerError) as caught:
        admit(gate, plan)
    assert caught.value.code is ErrorCode.UNKNOWN_OBJECT


def test_a_name_that_only_the_robot_will_know_is_judged_there():
    gate = SafetyGate(TELLO, mentioned=Mentioned(["cup"]))
    admit(gate, "_1=sa('something red');?_1!=False{g(_1);}g(sa('something blue'));")
