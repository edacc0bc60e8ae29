# SPDX-License-Identifier: Apache-2.0
"""A process that ends is a fault's doing for as long as the fault can end it."""

from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")

from llm_planner.ros.composition import Composition
from llm_planner_lab.bench.chaos import injection
from llm_planner_lab.bench.chaos.fleet import Processes
from llm_planner_lab.bench.chaos.injection import STARVED_S, Injector
from llm_planner_lab.bench.chaos.schedule import Fault, FaultKind

PID = 7


def processes():
    """Returns a fleet of one robot that ends with every look."""
    found = Processes(Path(), Composition(drones=1))
    found.fleet = SimpleNamespace(tend=lambda _: ["drone_1 ended with status 3"], pids={"drone_1": PID})
    found._pids = {"drone_1": PID}
    return found


@pytest.mark.parametrize(("blamed", "num_unexpected"), [([], 1), ([()], 0), ([(90.0,)], 1), ([(), (110.0,)], 0)])
def test_an_end_is_unexpected_unless_a_fault_is_to_blame_then(blamed, num_unexpected):
    ended = processes()
    for until in blamed:
        ended.blame(PID, *until)
    ended.tend(100.0)
    assert len(ended.unexpected) == num_unexpected
    assert ended.ends == {"drone_1": [(PID, 100.0)]}


@pytest.mark.parametrize(("after_s", "is_unexpected"), [(0.5, False), (STARVED_S + 0.5, True)])
def test_a_process_that_may_allocate_again_ends_soon_or_for_another_reason(monkeypatch, after_s, is_unexpected):
    ended = processes()
    monkeypatch.setattr(ended.__class__, "pid", lambda *_: PID)
    monkeypatch.setattr(injection.machine, "address_space_mb", lambda _: 100.0)
    monkeypatch.setattr(injection.machine, "is_alive", lambda _: True)
    monkeypatch.setattr(injection.resource, "prlimit", lambda *_: None)
    monkeypatch.setattr(injection.time, "monotonic", lambda: 100.0)
    injector = Injector(
        processes=ended, workload=None, hostile=None, clock=None, directory=Path(), seed=0,
        is_isolated=False, has_disk=False,
    )  # fmt: skip
    injector.inject(Fault(0, 0.0, FaultKind.MEMORY, "drone_1", 3.0))()
    ended.tend(100.0 + after_s)
    assert bool(ended.unexpected) == is_unexpected
    (span,) = injector.spans["drone_1"]
    assert span.end_s - span.begin_s == 3.0 + STARVED_S
