# SPDX-License-Identifier: Apache-2.0
"""The bundled model writes the same plan whether conditions come part by part, and where the engine dies in between."""

from dataclasses import replace

import pytest

from llm_planner.assembly import build_loop
from llm_planner.core.config import EngineConfig, PlannerConfig, SchedulerConfig
from llm_planner.core.request import PlanRequest
from llm_planner.core.segment import num_open_blocks
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner_lab.simulation.tasks import TASKS

SEARCHES = [(number, variant) for number in (1, 2, 3) for variant in TASKS[number].variants]


@pytest.fixture(scope="module")
def loop():
    config = PlannerConfig(
        engine=EngineConfig(model="planner-small", num_threads=1),
        scheduler=SchedulerConfig(policy="fcfs_stream", max_num_seqs=1),
        min_confidence=0.0,
    )
    loop = build_loop(config, do_clients_report=False)
    yield loop
    loop.close()


def plan(loop, request):
    """Returns the segments of a request, and its plan."""
    events, segments = list(loop.submit(request, 0.0)), list(request.delivered)
    while not any(isinstance(event, Finished) for event in events):
        segments += [event.segment for event in events if isinstance(event, SegmentReady)]
        events = loop.step(0.0)
    segments += [event.segment for event in events if isinstance(event, SegmentReady)]
    return segments, events[-1].result.plan


@pytest.mark.parametrize(("number", "variant"), SEARCHES)
def test_the_same_plan_whatever_it_is_cut_into_and_wherever_it_is_gone_on_with(loop, number, variant):
    request = PlanRequest(
        request_id="whole", robot_id="r", robot_model="tello", instruction=variant.instruction, scene=variant.scene
    )
    whole, text = plan(loop, request)
    parts, same = plan(loop, replace(request, request_id="parts", takes_open_blocks=True))
    assert same == text
    assert sum(part.num_tokens for part in parts) == sum(segment.num_tokens for segment in whole)
    if text.startswith("?"):
        assert parts[0].num_tokens <= 0.6 * whole[0].num_tokens
    for cut in range(1, len(parts)):
        delivered = tuple(parts[:cut])
        again = replace(request, request_id=f"cut {cut}", takes_open_blocks=True, delivered=delivered)
        if num_open_blocks(delivered):
            assert plan(loop, again)[1] == text
