# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.language.parser import parse
from llm_planner.robots.driver import SkillResult, SkillStatus
from llm_planner.robots.duration import expected_duration
from llm_planner.robots.interpreter import Interpreter
from llm_planner.robots.values import compare, is_true, yes_or_no
from llm_planner.robots.world import World
from tests.robots.builders import LIBRARY, drone, run


def calls(outcome):
    return [(c.call.name, *c.call.arguments) for c in outcome.calls]


def test_finds_the_cat_and_returns_its_distance():
    outcome = run("?s(cat){g(cat);->od(cat);}l('no cat');", drone())
    assert outcome.is_success
    assert outcome.value == pytest.approx(86, abs=0.1)  # 50 cm level and 70 cm down
    assert calls(outcome) == [("s", "cat"), ("g", "cat"), ("od", "cat")]


def test_a_conditional_without_success_is_skipped():
    assert calls(run("?s(dog){g(dog);}l('no dog');", drone())) == [("s", "dog"), ("l", "no dog")]


def test_variables_carry_values_into_arguments_and_conditions():
    outcome = run("_1=sa('a tool for cutting paper');?_1!=False{g(_1);->_1;}->False;", drone())
    assert outcome.value == "scissors"
    assert calls(outcome)[-1] == ("g", "scissors")


def test_nested_calls_are_evaluated_before_the_call_that_takes_them():
    outcome = run("md(od(chair));", drone())
    assert calls(outcome) == [("od", "chair"), ("md", 300.0)]
    assert outcome.reason == "md: would leave the geofence at (0.00, 0.00, -2.00) m"


def test_loops_nest():
    assert len(run("2{3{h();}tp();}", drone()).calls) == 8


def test_aliases_become_names():
    assert calls(run("move_forward(50);turn_cw(90);", drone())) == [("mf", 50.0), ("tc", 90.0)]


def test_and_binds_tighter_and_both_stop_early():
    outcome = run("?iv(chair)|iv(cat)&iv(dog){h();}", drone())
    assert calls(outcome) == [("iv", "chair"), ("h",)]
    outcome = run("?iv(dog)&iv(chair)|iv(cat){h();}", drone())
    assert calls(outcome) == [("iv", "dog"), ("iv", "cat")]


def test_a_return_ends_everything_around_it():
    outcome = run("5{3{?iv(chair){->7;}}}mf(100);", drone())
    assert outcome.value == 7
    assert len(outcome.calls) == 1


def test_replan_ends_the_plan():
    outcome = run("rp();mf(100);", drone())
    assert (outcome.is_success, outcome.wants_replan, len(outcome.calls)) == (True, True, 1)
    assert len(run("?rp(){mf(100);}", drone()).calls) == 1
    assert len(run("9{rp();}", drone()).calls) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a(dog);", "a: dog is not visible"),
        ("->_3;", "variable _3 has no value"),
        ("?sa('scissors')>3{h();}", "cannot compare 'scissors' > 3.0"),
        ("fly_home();", "fly_home: there is no skill fly_home"),
        ("10001{}", "the plan has more than 10000 steps"),
        ("99999{h();}", "the plan has more than 10000 steps"),
    ],
)
def test_a_failure_ends_the_plan_with_its_reason(text, reason):
    outcome = run(text + "mf(100);", drone())
    assert not outcome.is_success
    assert outcome.reason == reason
    assert "mf" not in {name for name, *_ in calls(outcome)}


def test_probed_values_are_compared_as_what_they_spell():
    assert run("?p('what colour is the chair?')==blue{->1;}->2;", drone()).value == 1
    assert run("?p('how many chairs are there')>0{->1;}->2;", drone()).value == 1
    assert run("->p('how many chairs are there');", drone()).value == 1


@pytest.mark.parametrize(
    ("left", "operator", "right", "expected"),
    [
        (1.0, "==", True, False),
        ("cat", "!=", False, True),
        (False, "==", False, True),
        ("Yes", "==", True, True),
        ("3", ">", 2.0, True),
        (2.0, "<", "3", True),
        ("a", "==", "a", True),
        ("Red.", "==", "red", True),
        (" Red.", "!=", "red", False),
        ("red", "!=", "blue", True),
        ("Yes.", "==", True, True),
        ("a", "==", 1.0, False),
        ("-2.5", "<", -2.0, True),
        (" 3. ", "==", 3.0, True),
        ("nan", "!=", 3.0, True),
    ],
)
def test_comparisons(left, operator, right, expected):
    assert compare(left, operator, right) is expected


@pytest.mark.parametrize("word", ["Nan", "inf", "-Infinity", "1e3", "1_000", "9" * 400, "\u0663", "", "far"])
def test_what_is_no_finite_decimal_is_not_ordered(word):
    for operator in "<>":
        with pytest.raises(TypeError, match="cannot compare"):
            compare(word, operator, 3.0)


def test_truth():
    assert [is_true(v) for v in (True, 1.0, "cat", False, 0.0, "No", "")] == [True] * 3 + [False] * 4


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Yes", True), ("yes, it is open", True), ("True.", True), (True, True), (2.0, True),
        ("No.", False), ("no, somebody stands there", False), ("false", False), (False, False), (0.0, False),
        ("no idea", None), ("it is closed", None), ("nobody", None), ("", None), ("yesterday", None),
    ],
)  # fmt: skip
def test_what_an_answer_decides(answer, expected):
    assert yes_or_no(answer) is expected


@pytest.mark.parametrize(
    "plan",
    [
        "?p('is it open'){mf(100);}",
        "?p('is it open')==False{mf(100);}ld();",
        "?True==p('is it open'){mf(100);}",
        "?p('is it open')=='yes'{mf(100);}?p('is it open')=='no'{ld();}",
        "?p('is it open')!=yes{mf(100);}",
        "?'no'!=p('is it open'){mf(100);}",
        "?'yes'==p('is it open')|iv(chair){mf(100);}",
    ],
)
def test_a_robot_stands_still_where_an_answer_decides_nothing(plan):
    outcome = run(plan, drone(World(answers={"open": "I cannot see a door"})))
    assert outcome.reason == "the answer to 'is it open' is neither yes nor no: 'I cannot see a door'"
    assert calls(outcome) == [("p", "is it open")]


def test_an_answer_in_a_sentence_decides():
    told = drone(World(answers={"open": "No, the door is closed."}))
    outcome = run("_1=p('is it open');?_1{mf(100);}?_1==False{tc(90);}", told)
    assert calls(outcome) == [("p", "is it open"), ("tc", 90.0)]


@pytest.mark.parametrize(
    ("answer", "is_yes"), [("Yes, two people", True), ("yes", True), ("True.", True), (2.0, True), ("No.", False)]
)
@pytest.mark.parametrize("yes", ["_1==True", "True==_1", "_1=='yes'", "'Yes'==_1", "_1!='no'", "_1==p('who is there')"])
def test_an_answer_is_compared_as_the_yes_or_no_that_it_says(yes, answer, is_yes):
    told = drone(World(answers={"anyone": answer, "who": "yes, Ann"}))
    outcome = run(f"_1=p('is anyone there');?{yes}{{tc(90);}}", told)
    assert outcome.is_success
    assert (calls(outcome)[-1] == ("tc", 90.0)) == is_yes


def test_parts_of_a_plan_share_variables_and_nothing_runs_after_a_return():
    driver = drone()
    interpreter = Interpreter(driver.model, driver)

    def part(text, now_s):
        interpreter.start(parse(text), now_s)
        while interpreter.tick(now_s).status is SkillStatus.RUNNING:
            now_s = driver.end_s
        return interpreter.tick(now_s), now_s

    result, now_s = part("_1=od(chair);", 0.0)
    assert result.value == 300
    result, now_s = part("?_1>200{->_1;}", now_s)
    assert result == SkillResult(SkillStatus.SUCCEEDED, 300.0)
    result, now_s = part("mf(100);", now_s)
    assert result == SkillResult(SkillStatus.SUCCEEDED, 300.0)
    assert len(interpreter.calls) == 1


def test_ticks_do_not_block_and_halt_stops_the_robot():
    driver = drone()
    interpreter = Interpreter(driver.model, driver)
    interpreter.start(parse("mf(500);mb(500);"), 0.0)
    assert interpreter.tick(2.0).status is SkillStatus.RUNNING
    with pytest.raises(RuntimeError, match="still running"):
        interpreter.start(parse("h();"), 2.0)
    interpreter.halt(3.0)
    assert interpreter.tick(99.0) == SkillResult(SkillStatus.FAILED, None, "halted")
    assert 0 < driver.state.pose.x_m < 5
    interpreter.start(parse("mf(100);"), 100.0)
    assert interpreter.tick(100.0).status is SkillStatus.SUCCEEDED  # a halted plan goes nowhere
    assert len(interpreter.calls) == 1


PIECES = st.sampled_from(["mf(20);", "tc(45);", "?iv(cat){mu(20);}", "2{tp();}", "?s(cat){o(cat);}", "d(1);"])


@settings(deadline=None, max_examples=60)
@given(st.lists(PIECES, max_size=8), st.integers(0, 99))
def test_a_successful_plan_takes_at_least_the_expected_minimum(pieces, seed):
    plan = parse("".join(pieces))
    outcome = run("".join(pieces), drone(seed=seed))
    if outcome.is_success:
        assert outcome.duration_s >= expected_duration(LIBRARY.get("tello"), plan).min_s - 1e-9


def test_about_nine_of_ten_flights_stay_below_p90():
    text = "mf(100);tc(90);mf(200);tu(30);mb(50);"
    duration = expected_duration(LIBRARY.get("tello"), parse(text))
    measured_s = sorted(run(text, drone(seed=s)).duration_s for s in range(200))
    assert measured_s[180] <= duration.p90_s
    assert measured_s[100] == pytest.approx(duration.p50_s, rel=0.1)


def test_a_plan_that_gives_up_has_failed_for_good_and_says_why():
    plan = "?s(dog)==False{fail('dog not found');}g(dog);"
    outcome = run(plan, drone())
    assert (outcome.is_success, outcome.reason) == (False, "dog not found")
    assert calls(outcome) == [("s", "dog")]
    interpreter = Interpreter(drone().model, drone())
    interpreter.start(parse("fail('no door');"), 0.0)
    assert interpreter.tick(0.0).is_permanent
    interpreter = Interpreter(drone().model, drone())
    interpreter.start(parse("g(dog);"), 0.0)
    assert not interpreter.tick(60.0).is_permanent
