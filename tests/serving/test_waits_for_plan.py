# SPDX-License-Identifier: Apache-2.0
"""The first statements of a plan, which wait for the rest of it."""

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.request import Urgency
from llm_planner.robots.library import RobotLibrary
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.events import SegmentReady
from llm_planner.serving.fake import FakeBackend, FakeTiming
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.plan_preparer import PlanPreparer
from tests.serving.builders import make_request

STEP_S = 0.01


def received(plan, wait_s, **request):
    """Returns what a robot gets of a plan, with the step after which it gets it; a step writes a token."""
    backend = FakeBackend(plans={"go": plan}, timing=FakeTiming(step_s=STEP_S, prompt_token_s=0.0, decode_s=0.0))
    scheduler = Scheduler(SchedulerConfig(network_latency_s=0.0), make_policy("tardiness"), backend.info)
    preparer = PlanPreparer(backend=backend, tokenizer=backend.tokenizer, library=RobotLibrary())
    options = {"do_clients_report": False, "waits_for_plan_s": wait_s}
    loop = PlannerLoop(backend=backend, scheduler=scheduler, preparer=preparer, **options)
    loop.submit(make_request("r", "go", **request), 0.0)
    got = []
    for number in range(1, 1000):
        got += [(e.segment.text, number) for e in loop.step(STEP_S * (number - 1)) if isinstance(e, SegmentReady)]
    return got


def test_the_first_statements_wait_for_the_rest_of_their_plan_only_so_long():
    plan = "mr(100);mr(50);mr(20);"  # some seconds each
    at_once = received(plan, 0.0)
    assert [text for text, _ in at_once] == ["mr(100);", "mr(50);", "mr(20);"]
    first = at_once[0][1]
    waited = received(plan, 4.5 * STEP_S)
    assert waited[0] == ("mr(100);", first + 5)
    assert [text for text, _ in waited] == ["mr(100);", "mr(50);", "mr(20);"]
    whole = received(plan, 1.0)
    assert {number for _, number in whole} == {whole[0][1]}
    assert whole[0][1] > waited[0][1]
    for hurry in ({"urgency": Urgency.URGENT}, {"time_budget_s": 5.0}):
        assert received(plan, 1.0, **hurry) == received(plan, 0.0, **hurry)


def test_what_turns_out_not_to_be_a_plan_in_that_time_is_not_begun():
    plan = "mr(100);oops;"
    (text, first), *none = received(plan, 0.0)
    assert (text, none) == ("mr(100);", [])
    assert received(plan, 1.0) == []
    fails = next(n for n in range(1, 50) if received(plan, (n - 0.5) * STEP_S) == [])
    assert received(plan, (fails - 1.5) * STEP_S) == [
        ("mr(100);", first + fails - 1)
    ]  # not in the step that knows better
