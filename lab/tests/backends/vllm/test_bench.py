# SPDX-License-Identifier: Apache-2.0
"""The benchmark of vLLM, cut short: our scheduler is taken out and put back, and figures come of it."""

import random
from contextlib import nullcontext

import pytest

pytest.importorskip("vllm")

from llm_planner.core.request import Urgency
from llm_planner_lab.bench import vllm_engine
from llm_planner_lab.bench.vllm_drive import Drive
from llm_planner_lab.bench.vllm_engine import VllmBench
from llm_planner_lab.bench.vllm_stock import PriorityMixin, stock
from tests.backends.vllm.test_identity import uninterrupted
from tests.engine.builders import sequence


@pytest.fixture
def short(monkeypatch):
    for name, value in {"NUM_RESUMES": 4, "NUM_DECISIONS": 6, "NUM_URGENT": 1, "WARM_UP_STEPS": 4}.items():
        monkeypatch.setattr(vllm_engine, name, value)
    monkeypatch.setattr(vllm_engine, "BUSY_TOKENS", (20, 40))


def test_urgent_requests_come_to_one_scheduler_after_the_other(monkeypatch):
    asked = []
    monkeypatch.setattr(VllmBench, "_scheduled_by", lambda *_: nullcontext())
    monkeypatch.setattr(
        VllmBench, "_urgent_once", lambda _, name: asked.append(name) or {"whole_ms": float(len(asked))}
    )
    found = VllmBench(None)._urgent()
    assert asked[::4] == ["ours", "stock_fcfs", "stock_priority"]
    assert found["ours"] == {"whole_ms": 8.0}  # of the first, eighth and eleventh


def test_every_figure_is_there_and_an_urgent_one_does_not_wait_with_us(backend, short):
    received = []
    bench = VllmBench(backend, num_slots=2, num_requests=4, on_progress=lambda what, _share: received.append(what))
    document = bench.run()
    urgent = document["urgent"]
    assert urgent["alone"]["whole_steps"] <= urgent["ours"]["whole_steps"] <= urgent["alone"]["whole_steps"] + 1
    assert urgent["ours"]["whole_steps"] < urgent["stock_priority"]["whole_steps"]
    assert urgent["stock_priority"]["whole_steps"] < urgent["stock_fcfs"]["whole_steps"]
    assert document["resume"]["ratio"] > 0
    assert {"decision_ms", "handover_ms", "schedule_ms", "stock_schedule_ms"} <= set(document["decision"])
    assert "resuming" in received


def order_of_service(backend):
    """Returns which of three requests is served first where there is one slot and it is taken."""
    drive = Drive(backend, random.Random(0), None)
    first = drive.add("first", 100)
    while first.num_output_tokens < 3:
        drive.step()
    late = [drive.add("normal", 10), drive.add("urgent", 10, Urgency.URGENT)]
    while not any(g.num_output_tokens for g in late):
        drive.step()
    served = next(g.request_id for g in late if g.num_output_tokens)
    drive.end()
    return served


def test_vllm_schedules_by_itself_and_gives_us_back(backend):
    ours = backend.engine.scheduler
    with stock(backend, "fcfs", 1):
        assert isinstance(backend.engine.core.scheduler, PriorityMixin)
        assert order_of_service(backend) == "normal"
    with stock(backend, "priority", 1, lambda request_id: -(request_id == "urgent")):
        assert order_of_service(backend) == "urgent"
    assert backend.engine.scheduler is backend.engine.core.scheduler is ours


def test_what_vllm_wrote_meanwhile_is_not_taken_for_a_prompt_of_ours(backend):
    prompt = tuple(range(10, 110))
    expected = uninterrupted(backend, [sequence("a", prompt=prompt)])
    with stock(backend, "fcfs", 8):
        drive = Drive(backend, random.Random(1), None)
        for i in range(8):
            drive.add(f"r{i}", 120)
        while not drive.is_done:
            drive.step()
        drive.end()
    assert uninterrupted(backend, [sequence("a", prompt=prompt)]) == expected
