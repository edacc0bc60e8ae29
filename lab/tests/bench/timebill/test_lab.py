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

    def __init__(self, engine, limit):
        self.engine, self.limit = engine, limit

    def prepare(self, request):
        ids = tuple(self.engine.tokenizer.encode("please go"))
        return SimpleNamespace(sequence=Sequence(request_id="r", prompt_token_ids=ids), session=Session(self.limit))


@pytest.mark.parametrize("limit", [1, 7, 10_000])
def test_a_response_ends_where_its_plan_is_refused(limit):
    engine = FakeBackend(plans={"go": PLAN}, num_kv_blocks=64)
    lab = Lab(
        engine=ReplayedEngine(engine, max_tokens=64),
        plans=Plans(engine, limit),
        whole=None,
        predictor=None,
        library=None,
        profile=None,
        jobs=[],
        workload=Workload(max_tokens=64),
        clock=ManualClock(),
    )
    request = PlanRequest(request_id="r", robot_id="r", robot_model="tello", instruction="go")
    lab._prepared["r", True] = lab.plans.prepare(request)
    response = lab.response(SimpleNamespace(name="r", request=lambda *_: request))
    written = [token_id for step in response for token_id in step.token_ids]
    assert written == engine.tokenizer.encode(PLAN)[: min(limit, len(PLAN))]
