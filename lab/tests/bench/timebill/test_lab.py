# SPDX-License-Identifier: Apache-2.0
"""What a whole response is: as much of a generation as service lets go on."""

from types import SimpleNamespace

import pytest

from llm_planner.core.clock import ManualClock
from llm_planner.core.request import PlanRequest
from llm_planner.core.step import Sequence
from llm_planner.planning.session import Progress
from llm_planner.serving.fake import FakeBackend
from llm_planner_lab.bench.timebill.jobs import Workload
from llm_planner_lab.bench.timebill.lab import Lab
from llm_planner_lab.bench.timebill.replay import ReplayedEngine

PLAN = "a(1);b(2);c(3);"


class Session:
    """Ends, or refuses, the plan at its ``limit``-th token."""

    def __init__(self, limit):
        self.left = limit

    def feed(self, token_ids, choices):
        self.left -= len(list(token_ids))
        return Progress(is_complete=self.left <= 0)


class Plans:
    """Prepares requests for an engine that writes ``PLAN`` whatever is asked."""

    def __init__(self, engine, limit, at_once=None):
        self.engine, self.limit, self.at_once = engine, limit, at_once

    def prepare(self, request):
        ids = tuple(self.engine.tokenizer.encode("please go"))
        sequence = Sequence(request_id="r", prompt_token_ids=ids)
        return SimpleNamespace(sequence=sequence, session=Session(self.limit), at_once=self.at_once)


def make_lab(limit, at_once=None):
    engine = FakeBackend(plans={"go": PLAN}, num_kv_blocks=64)
    return Lab(
        engine=ReplayedEngine(engine, max_tokens=64),
        plans=Plans(engine, limit),
        whole=None,
        service=Plans(engine, limit - 1, at_once),
        predictor=None,
        library=None,
        profile=None,
        jobs=[],
        workload=Workload(max_tokens=64),
        clock=ManualClock(),
    )


JOB = SimpleNamespace(
    name="r", request=lambda *_: PlanRequest(request_id="r", robot_id="r", robot_model="tello", instruction="go")
)


@pytest.mark.parametrize("limit", [2, 7, 10_000])
def test_a_response_ends_where_its_plan_is_refused_and_in_service_where_it_is_not_understood(limit):
    lab = make_lab(limit)
    lab._prepared["r", True] = lab.plans.prepare(JOB.request())
    response = lab.response(JOB)
    written = [token_id for step in response for token_id in step.token_ids]
    assert written == lab.plans.engine.tokenizer.encode(PLAN)[: min(limit, len(PLAN))]
    assert lab.served(JOB, response) == response[: limit - 1]


@pytest.mark.parametrize("at_once", [None, Progress(is_complete=True)])
def test_service_runs_nothing_of_what_it_answers_at_once(at_once):
    lab = make_lab(7, at_once)
    lab._prepared["r", True] = lab.plans.prepare(JOB.request())
    assert (lab.served(JOB, lab.response(JOB)) == []) is (at_once is not None)
