# SPDX-License-Identifier: Apache-2.0
"""The screen of `llm-planner top`: what a person reads off it."""

from dataclasses import replace

from rich.console import Console

from llm_planner.cli.top_screen import screen
from llm_planner.core.errors import ErrorCode
from llm_planner.serving.meter import Rates, Totals
from llm_planner.serving.planner_view import IdleRobot, PlannerView
from llm_planner.serving.view import GoalView, LoopStatus, LoopView

RATES = Rates(tokens_per_s=120.0, computed_tokens_per_s=400.0, steps_per_s=20.0, busy_share=0.4, decision_s=0.00012)


def make_goal(robot_id: str, **changes) -> GoalView:
    goal = GoalView(
        request_id=f"r_{robot_id}",
        robot_id=robot_id,
        urgency="normal",
        state="suspended",
        age_s=4.0,
        num_segments=3,
        num_executed=1,
        num_output_tokens=17,
        num_kv_blocks=5,
        is_offloaded=False,
        robot_busy_s=2.5,
        utility=1.0,
        falls_in_s=2.5,
        ends_in_s=33.0,
    )
    return replace(goal, **changes)


def make_view(*goals: GoalView, num_goals: int | None = None, **changes):
    status = LoopStatus(
        model="small",
        policy="tardiness",
        num_goals=len(goals) if num_goals is None else num_goals,
        num_running=4,
        num_ready=2,
        num_suspended=1,
        num_kv_blocks=100,
        num_free_kv_blocks=60,
    )
    loop = LoopView(
        at_s=10.0,
        status=status,
        max_num_seqs=8,
        num_prefix_kv_blocks=15,
        num_offloaded_kv_blocks=7,
        totals=Totals(),
        goals=goals,
    )
    fields = {"planner": "/planner", "state": "ACTIVE", "model": "small", "policy": "tardiness", "is_ready": True}
    return PlannerView(**({"loop": loop, "age_s": 0.1} | fields | changes))


def lines(view, measured=RATES, width=100, **options) -> list[str]:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(screen(view, measured, **options))
    return captured.get().splitlines()


def line(shown: list[str], word: str) -> str:
    return next(text for text in shown if word in text)


def test_slots_memory_and_engine_in_numbers_and_bars():
    shown = lines(make_view(make_goal("drone_1")))
    assert "ACTIVE" in shown[0]
    assert "4 of 8 busy, 2 due, 1 suspended" in line(shown, "slots")
    assert line(shown, "slots").count("█") == 10
    assert "25 used, 15 prefixes, 60 free; 7 offloaded" in line(shown, "KV")
    assert line(shown, "KV").count("█") == 8
    assert all("…" not in text for text in shown)
    assert "120 tokens/s" in line(shown, "engine")
    assert "0.12 ms" in line(shown, "engine")


def test_who_loses_something_next_stands_first():
    goals = (
        make_goal("later"),
        make_goal("budget", falls_in_s=1.5, ends_in_s=0.2),
        make_goal("done", state="planned", utility=None, falls_in_s=None, num_executed=2, ends_in_s=30.0),
        make_goal("late", state="waiting", num_segments=0, num_executed=0, falls_in_s=-0.7, robot_busy_s=-1.2),
    )
    shown = lines(make_view(*goals))
    order = [
        text.split()[0] for text in shown if text.split() and text.split()[0] in ("later", "budget", "done", "late")
    ]
    assert order == ["late", "budget", "later", "done"]
    assert "waits 1.2 s" in line(shown, "late ")
    assert line(shown, "late ").split()[-2:] == ["-0.7", "33.0"]
    assert "segment 2 of 3+, 2.5 s left" in line(shown, "later")
    assert "segment 3 of 3, 2.5 s left" in line(shown, "done")
    assert line(shown, "budget").split()[-2:] == ["1.5", "0.2"]


def test_what_does_not_fit_is_counted():
    shown = lines(make_view(*(make_goal(f"drone_{n}") for n in range(5)), num_goals=70), max_goals=2)
    assert sum("drone_" in text for text in shown) == 2
    assert any("and 68 more" in text for text in shown)


def test_troubles_are_said():
    assert any("the planner has been silent for 3 s" in text for text in lines(make_view(), silent_s=3.0))
    assert any("has not answered for 4.0 s" in text for text in lines(make_view(age_s=4.0)))
    assert any("has not answered yet" in text for text in lines(make_view(loop=None, age_s=None), None))
    failed = make_view(is_ready=False, error_code=int(ErrorCode.ENGINE_FAILED), error_msg="the engine failed 5 times")
    assert any("the engine failed 5 times [ENGINE_FAILED 500]" in text for text in lines(failed))


def test_idle_robots_and_how_their_last_goal_ended():
    idle = (
        IdleRobot(robot_id="arm_[1]", idle_s=12.2, error_code=0),
        IdleRobot(robot_id="drone_2", idle_s=3.0, error_code=int(ErrorCode.SKILL_FAILED)),
    )
    shown = lines(make_view(idle_robots=idle))
    assert "arm_[1] (12 s), drone_2 (3 s, after SKILL_FAILED)" in line(shown, "idle")
    assert any("no goals" in text for text in shown)


def test_codes_of_a_newer_planner_are_shown_as_unknown():
    view = make_view(error_code=777, error_msg="odd", idle_robots=(IdleRobot(robot_id="x", idle_s=1.0, error_code=9),))
    shown = lines(view)
    assert line(shown, "odd") == "odd [unknown (777) 777]"
    assert "after unknown (9)" in line(shown, "idle")


def test_it_fits_into_60_columns():
    view = make_view(
        make_goal("drone_1"),
        make_goal("arm_2", state="planned", robot_busy_s=123.4, ends_in_s=133.0),
        num_goals=1,
        idle_robots=(IdleRobot(robot_id="drone_2", idle_s=3.0, error_code=0),),
    )
    shown = lines(view, width=60, robots=["drone_3"])
    assert max(map(len, shown)) <= 60
    assert not any("…" in text for text in shown)
    assert "segment 2 of 3+, 2.5 s left" in line(shown, "drone_1")
    assert line(shown, "drone_1").split()[-1] == "33.0"
    assert "segment 2 of 3, 123.4 s left" in line(shown, "arm_2")
    assert "suspended" in line(shown, "drone_1")


def test_robots_without_a_goal_are_idle_too():
    idle = (IdleRobot(robot_id="drone_2", idle_s=3.0, error_code=0),)
    shown = lines(make_view(make_goal("drone_1"), idle_robots=idle), robots=["arm_[1]", "drone_1", "drone_2"])
    assert line(shown, "idle").split("idle    ")[1] == "drone_2 (3 s), arm_[1] (no goal yet)"
    assert "1 goal" in line(shown, "slots")
    assert "1 goals" not in line(shown, "slots")


def test_an_empty_screen_says_the_next_step():
    assert 'llm-planner send arm_1 "..."' in line(lines(make_view(), robots=["drone_1", "arm_1"]), "no goals")
    assert "llm-planner up" in line(lines(make_view()), "no goals")
