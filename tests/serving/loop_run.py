# SPDX-License-Identifier: Apache-2.0
"""A loop in virtual time, with robots that execute and report."""

from llm_planner.core.request import PlanResult
from llm_planner.serving.events import Event, Finished, SegmentReady
from llm_planner.serving.loop import PlannerLoop
from tests.serving.builders import make_request, succeeded


class Run:
    """Drives a loop in virtual time with robots that execute every segment in ``seconds`` and report."""

    def __init__(self, loop: PlannerLoop, seconds: float = 1.0, reports: bool = True) -> None:
        self.loop = loop
        self.seconds = seconds
        self.reports = reports
        self.now_s = 0.0
        self.events: list[tuple[float, Event]] = []
        self._pending: list[tuple[float, str, int]] = []
        self._busy_until_s: dict[str, float] = {}

    def submit(self, *args, **kwargs) -> None:
        self.take(self.loop.submit(make_request(*args, **kwargs), self.now_s))

    def take(self, events: list[Event]) -> None:
        for event in events:
            self.events.append((self.now_s, event))
            if isinstance(event, SegmentReady) and self.reports:
                start_s = max(self.now_s, self._busy_until_s.get(event.request_id, 0.0))
                end_s = start_s + self.seconds
                self._busy_until_s[event.request_id] = end_s
                self._pending.append((end_s, event.request_id, event.segment.index))
                self._pending.sort()

    def go(self, until_s: float = 1e4) -> None:
        """Runs until nothing is left to happen."""
        for _ in range(20000):
            wakeup_s = self.loop.next_wakeup_s(self.now_s)
            report_s = self._pending[0][0] if self._pending else None
            next_s = min((t for t in (wakeup_s, report_s) if t is not None), default=None)
            if next_s is None or next_s > until_s:
                return
            self.now_s = max(self.now_s, next_s)
            if report_s is not None and report_s <= self.now_s:
                _, request_id, index = self._pending.pop(0)
                self.take(self.loop.report(succeeded(request_id, index, self.seconds), self.now_s))
            else:
                before = len(self.events)
                self.take(self.loop.step(self.now_s))
                assert len(self.events) >= before
                self.now_s += 0.012
        raise AssertionError("the loop never comes to rest")

    def texts(self, request_id: str = "r1") -> list[str]:
        return [e.segment.text for _, e in self.events if isinstance(e, SegmentReady) and e.request_id == request_id]

    def result(self, request_id: str = "r1") -> PlanResult:
        (result,) = [e.result for _, e in self.events if isinstance(e, Finished) and e.request_id == request_id]
        return result

    def time_of(self, kind: type, number: int = 0) -> float:
        return [t for t, e in self.events if isinstance(e, kind)][number]
