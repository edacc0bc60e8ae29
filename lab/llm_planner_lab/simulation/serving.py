# SPDX-License-Identifier: Apache-2.0
"""Many requests at once in virtual time, where only the plans count."""

from collections.abc import Iterable, Sequence

from llm_planner.core.request import PlanRequest, PlanResult
from llm_planner.serving.events import Finished
from llm_planner.serving.loop import PlannerLoop


def serve_all(loop: PlannerLoop, requests: Sequence[PlanRequest]) -> list[PlanResult]:
    """Returns the result of each request, in order; all of them are served together, in virtual time."""
    results: dict[str, PlanResult] = {}
    for request in requests:
        _collect(loop.submit(request, 0.0), results)
    now_s = 0.0
    while len(results) < len(requests):
        _collect(loop.step(now_s), results)
        now_s = max(now_s + 1e-3, loop.next_wakeup_s(now_s) or 0.0)
    return [results[request.request_id] for request in requests]


def _collect(events: Iterable[object], results: dict[str, PlanResult]) -> None:
    for event in events:
        if isinstance(event, Finished):
            results[event.request_id] = event.result
