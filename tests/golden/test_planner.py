# SPDX-License-Identifier: Apache-2.0
"""Schedules of the planner's loop on a scripted backend, which needs no weights."""

from pathlib import Path

import pytest

from llm_planner.core.request import OverrunStrategy, Urgency
from llm_planner.scheduling.policies import policy_names
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.fake import FakeBackend
from tests.golden.recorded import check, digest
from tests.serving.builders import make_loop
from tests.serving.loop_run import Run

RECORD = Path(__file__).with_name("planner.json")
PLANS = {
    "short": "mf(50);",
    "long": "".join(f"mf({n});scan('cup');tc({n});" for n in range(10, 90, 10)),
    "block": "8{?iv(cup){g(cup);tp();}tc(45);}l('no cup');",
    "refused": "mf(10);forbidden(1);mf(20);",
    "story": "".join(f"l('part {n}');" for n in range(12)),
}


def events_of(policy):
    """Returns what came of a crowd: more requests than slots, urgent ones among them, budgets, little memory."""
    backend = FakeBackend(plans=PLANS, num_kv_blocks=160)
    loop = make_loop(policy=policy, backend=backend, max_num_seqs=4)
    run = Run(loop, seconds=0.4)
    for number in range(24):
        budget_s = 0.5 + 0.25 * (number % 5) if number % 3 == 0 else None
        urgency = Urgency.URGENT if number % 4 == 1 else Urgency.NORMAL
        run.submit(
            f"r{number}",
            tuple(PLANS)[number % len(PLANS)],
            urgency=urgency,
            time_utility=urgency.time_utility,
            time_budget_s=budget_s,
            overrun=OverrunStrategy.SKIP_NEXT if number % 2 else OverrunStrategy.KILL,
        )
        run.go(until_s=run.now_s + 0.05 * (number % 7))
    run.go()
    return [row for time_s, event in run.events if (row := _row(time_s, event))]


def _row(time_s, event):
    if isinstance(event, SegmentReady):
        return (round(time_s, 6), event.request_id, event.segment.index, event.segment.text)
    if isinstance(event, Finished):
        return (round(time_s, 6), event.request_id, event.result.error_code.name, event.result.plan)
    return None


@pytest.fixture(scope="module")
def results():
    rows = {policy: events_of(policy) for policy in policy_names()}
    return {
        policy: {
            "digest": digest(events),
            "num_segments": sum(isinstance(row[2], int) for row in events),
            "num_complete": sum(row[2] == "NONE" for row in events),
            "last_s": events[-1][0],
        }
        for policy, events in rows.items()
    }


def test_schedules_are_as_recorded(results):
    check(RECORD, results)


def test_the_record_would_notice_another_schedule(results):
    assert len({result["digest"] for result in results.values()}) > len(results) // 2
