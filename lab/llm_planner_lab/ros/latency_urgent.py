# SPDX-License-Identifier: Apache-2.0
"""Emergencies from a running fleet under load: which get a first segment in time, which are refused, and when.

    python -m llm_planner_lab.ros.latency urgent --budgets 1.0 0.5 0.2 --trials 50

Planner (with its engine in another process), load and robot are processes of their own over DDS. Times are the
robot's: from asking until its program has the segment, or the refusal. The baseline in the same run are the same
emergencies without a budget, which take whatever the policy gives them.
"""

import threading
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import PlanRequest, PlanResult, Urgency
from llm_planner.core.segment import Segment
from llm_planner.ros.planner_client import PlannerClient
from llm_planner.ros.spinning import spinning
from llm_planner_lab.ros.latency_peers import TIMEOUT_S
from llm_planner_lab.ros.quantiles import Quantiles

PAUSE_S = 0.2  # between two emergencies: the fleet has gone on
BASELINE_EVERY = 5
EMERGENCIES = {"torch": "a person is walking toward you from the left", "fake": "exactly: mr(100);mf(50);"}


@dataclass(frozen=True, slots=True)
class Emergency:
    """How one emergency went, in seconds from the asking on the robot's clock.

    Attributes:
        first_s: When the first segment was there; None if none came.
        ended_s: When the result was there.
        response_time_s: The planner's own figure, from arrival to leaving.
    """

    first_s: float | None
    ended_s: float
    code: ErrorCode
    response_time_s: float | None


@dataclass(slots=True)
class _Trial:
    """One emergency in progress."""

    asked_s: float = field(default_factory=time.monotonic)
    first_s: float | None = None
    has_first: threading.Event = field(default_factory=threading.Event)

    def on_segment(self, _: Segment) -> None:
        if self.first_s is None:
            self.first_s = time.monotonic() - self.asked_s
            self.has_first.set()


def ask(client: PlannerClient, instruction: str, budget_s: float | None) -> Emergency:
    """Returns how one emergency went; blocks until it is over. With its first segment, the robot calls off the rest."""
    request = PlanRequest(
        request_id=uuid.uuid4().hex,
        robot_id=client.robot_id,
        robot_model="tello",
        instruction=instruction,
        urgency=Urgency.URGENT,
        time_utility=Urgency.URGENT.time_utility,
        time_budget_s=budget_s,
    )
    trial = _Trial()
    ended: list[float] = []

    def on_end(_: object) -> None:
        ended.append(time.monotonic() - trial.asked_s)
        trial.has_first.set()

    handle = client.ask(request, on_segment=trial.on_segment)
    handle.future.add_done_callback(on_end)
    trial.has_first.wait(TIMEOUT_S)
    handle.cancel()
    result: PlanResult = handle.result(TIMEOUT_S)
    return Emergency(trial.first_s, ended[0], result.error_code, result.metrics.response_time_s)


def summarize(emergencies: Sequence[Emergency], budget_s: float | None) -> dict[str, Any]:
    """Returns shares and latencies of emergencies with one budget.

    ``refused_early_ms`` is how long before the end of the budget a refusal was there: the reflex's head start.
    """
    firsts = [e.first_s for e in emergencies if e.first_s is not None]
    refused = [e for e in emergencies if e.first_s is None]
    answers = [e.response_time_s for e in emergencies if e.response_time_s is not None]
    summary: dict[str, Any] = {
        "budget_s": budget_s,
        "num": len(emergencies),
        "share_served": len(firsts) / len(emergencies),
        "first_segment": asdict(Quantiles.of(firsts)) if firsts else None,
        "refused": dict(Counter(e.code.name for e in refused)),
    }
    if budget_s is not None:
        summary |= {
            "share_in_budget_at_the_robot": sum(first_s <= budget_s for first_s in firsts) / len(emergencies),
            "share_in_budget_at_the_planner": sum(answer_s <= budget_s for answer_s in answers) / len(emergencies),
            "refusal": asdict(Quantiles.of([e.ended_s for e in refused])) if refused else None,
            "refused_early_ms": round(1e3 * min(budget_s - e.ended_s for e in refused), 2) if refused else None,
        }
    return summary


def measure_urgent(planner: str, engine: str, trials: int, budgets_s: Sequence[float]) -> list[dict[str, Any]]:
    """Returns one summary without a budget, and one per budget.

    The trials take turns, so that all meet the same load. The baseline, which may take long, is asked every
    ``BASELINE_EVERY``-th time.
    """
    kinds: list[float | None] = [*budgets_s, None]
    gone: dict[float | None, list[Emergency]] = {kind: [] for kind in kinds}
    with spinning("latency_urgent") as node:
        client = PlannerClient(node, "tello", planner=planner)
        if not client.wait_for_planner(TIMEOUT_S):
            raise TimeoutError(f"no planner {planner} within {TIMEOUT_S:g} s")
        for number in range(trials):
            for kind in kinds if number % BASELINE_EVERY == 0 else budgets_s:
                gone[kind].append(ask(client, EMERGENCIES[engine], kind))
                time.sleep(PAUSE_S)
    return [summarize(gone[kind], kind) for kind in kinds]
