# SPDX-License-Identifier: Apache-2.0
"""The corpus: every sentence is well-formed, and every plan is executed."""

import random
from collections import Counter

import pytest

from llm_planner.demo.outcome import execute, refusal
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.frames import CORPUS, Frame, corpus, of_authors, read_frames
from llm_planner_lab.tasks.sample import Difficulty
from llm_planner_lab.tasks.searching import with_decisions, with_searches
from llm_planner_lab.tasks.spoken import Speaker, literal, mirrored

ROBOTS = {name: RobotLibrary().get(name) for name in ("tello", "indy7")}
FRAMES = corpus()


def frame(sentence, plan, robot="tello", scene=(), **changes):
    return Frame(author="test", robot=robot, sentence=sentence, scene=scene, plan=plan, **changes)


def searched(plan, listed=()):
    return to_text(with_searches(with_decisions(parse(plan)), frozenset(listed)))


def check(task):
    """Executes the plan of a task; the gate may refuse what leads too far, and few authors have an arm handle somebody.

    Returns:
        Whether it was that.
    """
    refused = refusal(task, task.plan, ROBOTS[task.robot])
    if refused:
        codes = ("GEOFENCE_VIOLATED", "PLAN_TOO_LONG", "HARMFUL_REQUEST")
        assert any(code in refused for code in codes), (task, refused)
        return "HARMFUL_REQUEST" in refused
    outcome = execute(task, task.plan, ROBOTS[task.robot]).outcome
    assert outcome.is_success or outcome.has_given_up, (task, outcome.reason)
    return False


def test_there_are_many_sentences_of_many_authors_and_none_twice():
    assert len(FRAMES) >= 8000
    assert len({f.author for f in FRAMES}) >= 30
    twice = [k for k, n in Counter((f.robot, f.sentence.lower(), f.scene, f.author) for f in FRAMES).items() if n > 1]
    assert twice == []


def test_every_plan_of_the_corpus_is_executed_and_gated():
    rng = random.Random(0)
    assert (
        sum(check(literal(rng, one, has_scene=False)) for one in FRAMES) == 9
    )  # a toy bunny, the left leg of a chair, fires


def test_the_plainest_orders_are_executed_too():
    orders = list(read_frames(CORPUS.with_name("orders") / "plainest.txt"))
    assert len(orders) > 300
    assert not {(o.sentence, o.scene) for o in orders} & {(f.sentence, f.scene) for f in FRAMES}
    for one in orders:
        check(literal(random.Random(0), one, has_scene=True))


def test_orders_of_five_more_authors_are_executed_and_not_in_the_corpus():
    orders = [o for path in sorted(CORPUS.with_name("orders").glob("five_voices/*.txt")) for o in read_frames(path)]
    assert len(orders) > 600
    assert not {(o.robot, o.sentence) for o in orders} & {(f.robot, f.sentence) for f in FRAMES if len(f.sentence) > 25}
    for one in orders:
        check(literal(random.Random(0), one, has_scene=True))


def test_tasks_of_the_corpus_are_executed_too():
    speaker, rng = Speaker.of(FRAMES), random.Random(1)
    for _ in range(400):
        assert not check(
            speaker.sample(rng, Difficulty(max_objects=40))
        )  # on fuller tables there may be no room next to a thing


def test_sentences_are_drawn_as_often_as_their_weights_say():
    frames = [frame("land", "ld();"), frame("up", "mu(50);"), frame("open", "open();", "indy7")]
    speaker, rng = Speaker.of(frames, [0.1, 0.3, 0.5]), random.Random(0)
    first = Counter(speaker.sample(rng).plan.partition("(")[0] for _ in range(1500))
    assert 2.2 < first["mu"] / first["ld"] < 4.0
    assert 420 < first["open"] < 580  # robots come as often as they have sentences


@pytest.mark.parametrize("second", ["pick(<lid>);", "push(<lid>,left_area);"])
def test_a_hand_that_is_full_picks_and_pushes_nothing_else(second):
    frames = [frame("lift the <cup>", "pick(<cup>);", "indy7"), frame("now the <lid>", second, "indy7")]
    speaker, rng = Speaker.of(frames), random.Random(0)
    plans = [speaker.sample(rng).plan for _ in range(200)]
    assert not any(plan.startswith("pick(") and plan.count("(") > 1 for plan in plans)


def test_nothing_is_joined_behind_a_landing():
    frames = [frame("come down", "ld();"), frame("where is the <cup>", "find(<cup>);")]
    speaker, rng = Speaker.of(frames), random.Random(0)
    plans = [speaker.sample(rng).plan for _ in range(400)]
    assert not any(plan.startswith("ld();?") for plan in plans)
    assert any(plan.endswith("ld();") and len(plan) > 10 for plan in plans)


def test_nothing_is_joined_to_what_is_too_far():
    speaker, rng = Speaker.of([frame("up [one metre]", "mu([100]);")]), random.Random(0)
    plans = [speaker.sample(rng).plan for _ in range(800)]
    assert any(plan.startswith("fail(") for plan in plans)
    assert not any("fail(" in plan and plan.count(";") > 1 for plan in plans)


def test_what_the_hand_holds_is_not_placed_behind_another_order():
    frames = [
        frame("wave", "3{open();close();}", "indy7"),
        frame("now down with the <cup>", "place(<cup>,bin);", "indy7"),
    ]
    speaker, rng = Speaker.of(frames), random.Random(0)
    plans = [speaker.sample(rng).plan for _ in range(300)]
    assert any("place(" in plan for plan in plans)
    assert any("open();" in plan and plan.count("{") == 2 for plan in plans)  # others are joined
    assert not any("open();" in plan and "place(" in plan.partition("open();")[2] for plan in plans)


def test_an_order_is_unclear_with_two_things_of_the_name_and_clear_with_one():
    speaker, rng = Speaker.of([frame("go to the <cup>", "g(<cup>);")]), random.Random(0)
    tasks = [speaker.sample(rng) for _ in range(600)]
    unclear = [task for task in tasks if "unclear(" in task.plan]
    assert 30 < len(unclear) < 120
    for task in unclear:
        noun = task.plan.partition("which ")[2].partition("'")[0]
        assert sum(thing.name.endswith(f"_{noun}") for thing in task.objects) == 2
        assert "g(" not in task.plan
    assert any("g(" in task.plan and task.scene for task in tasks)


@pytest.mark.parametrize(
    ("sentence", "plan"),
    [
        ("go to a <cup>", "g(<cup>);"),
        ("look for the <cup>", "find(<cup>);"),
        ("is the <cup> there?", "->iv(<cup>);"),
        ("if you see the <cup>, land", "?iv(<cup>){ld();}"),
        ("go to the <cup>, no, a <tray>", "g(<tray>);"),
    ],
)
def test_what_two_things_of_the_name_do_not_make_unclear_stays(sentence, plan):
    speaker, rng = Speaker.of([frame(sentence, plan)]), random.Random(0)
    assert not any("unclear(" in speaker.sample(rng).plan for _ in range(300))


def test_what_is_unclear_of_several_things_is_the_one_that_is_there_twice():
    speaker = Speaker.of([frame("put the <cup> on the <tray>", "pick(<cup>);place(<cup>,<tray>);", robot="indy7")])
    rng = random.Random(0)
    tasks = [task for task in (speaker.sample(rng) for _ in range(600)) if "unclear(" in task.plan]
    assert 30 < len(tasks) < 120
    for task in tasks:
        noun = task.plan.partition("which ")[2].partition("'")[0]
        names = [thing.name for thing in task.objects if thing.name != "bin"]
        assert sum(name.endswith(f"_{noun}") for name in names) == 2
        assert len(names) >= 3


def test_one_thing_may_be_listed_with_its_colour_or_a_number():
    speaker, rng = Speaker.of([frame("go to the <cup>", "g(<cup>);")]), random.Random(0)
    plans = [speaker.sample(rng).plan for _ in range(2000)]
    assert {"g(cup);", "g(red_cup);", "g(cup_3);"} <= set(plans)


def test_the_order_that_a_scene_holds_is_not_in_the_plan():
    speaker, rng = Speaker.of([frame("land", "ld();"), frame("up", "mu(50);")]), random.Random(0)
    tasks = [speaker.sample(rng) for _ in range(1000)]
    for one in tasks:
        assert ("mu(50);" in one.plan) == ("up" in one.instruction.lower())
    assert any("ld();" in task.scene and "ld" not in task.plan for task in tasks)


def test_held_out_authors_are_not_among_the_others():
    some = of_authors(FRAMES, ["09-speech-to-text"])
    others = of_authors(FRAMES, ["09-speech-to-text"], is_in=False)
    assert len(some) + len(others) == len(FRAMES)
    assert {f.author for f in some} == {"09-speech-to-text"}


@pytest.mark.parametrize("line", ["land", "land | | ld()", "face the <Font> | | o(<font>);"])
def test_a_line_that_is_no_frame_is_named(tmp_path, line):
    path = tmp_path / "someone.txt"
    path.write_text(f"[tello]\nfly | | mf(100);\n{line}\n")
    with pytest.raises(ValueError, match=r"someone\.txt:3"):
        list(read_frames(path))


@pytest.mark.parametrize(
    ("plan", "listed", "expected"),
    [
        ("g(cat);tp();", ["cat"], "g(cat);tp();"),
        ("g(cat);tp();", [], "?s(cat)==False{fail('cat not found');}g(cat);tp();"),
        ("mf(50);g(cat);", ["cat"], "mf(50);?s(cat)==False{fail('cat not found');}g(cat);"),
        ("o(a);o(b);", ["a", "b"], "o(a);?s(b)==False{fail('b not found');}o(b);"),
        ("?iv(cat){g(cat);}", [], "?iv(cat){g(cat);}"),
        ("?s(a){l('x');}?s(a)==False{mb(50);}", [], "_1=s(a);?_1{l('x');}?_1==False{mb(50);}"),
        ("?od(a)<100{mb(50);}", [], "?iv(a)&od(a)<100{mb(50);}"),
        ("find('a tool');", [], "_1=sa('a tool');?_1==False{fail('nothing found');}g(_1);"),
        ("->od(a);", [], "?s(a)==False{fail('a not found');}->od(a);"),
    ],
)
def test_what_is_out_of_view_is_searched_for_first(plan, listed, expected):
    assert searched(plan, listed) == expected


@pytest.mark.parametrize(
    ("sentence", "plan", "mirror"),
    [
        ("go left a bit", "ml(30);", ("go right a bit", "mr(30);")),
        ("push it to the left", "push(<cup>,left_area);", ("push it to the right", "push(<cup>,right_area);")),
        ("turn right now", "tc(90);", None),
        ("what's left of it?", "->p('what is left');", None),
        ("the left shoe", "g(<left shoe>);", ("the right shoe", "g(<right shoe>);")),
    ],
)
def test_sides_are_mirrored_only_where_they_are_sides(sentence, plan, mirror):
    one = mirrored(frame(sentence, plan))
    assert (one.sentence, one.plan) == (mirror or (sentence, plan))


def test_amounts_change_in_the_sentence_and_in_the_plan_alike():
    speaker = Speaker.of([frame("rise [two feet] and wait [ten seconds]", "mu([61]);d([10]);")])
    rng = random.Random(3)
    for _ in range(50):
        task = speaker.sample(rng)
        if "fail" not in task.plan:
            height, pause = (call.arguments[0].value for call in parse(task.plan))
            assert (f"{height:g} cm" in task.instruction.lower()) or (height, "two") == (61, "two")
            assert 1 <= pause <= 60
