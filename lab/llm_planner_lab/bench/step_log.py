# SPDX-License-Identifier: Apache-2.0
"""Looks over a backend's shoulder, and leaves a list of its steps in a file: the engine may live in another process."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from itertools import starmap
from pathlib import Path

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.execution_time import MOST_DECODED_TOKENS
from llm_planner.core.interfaces import Backend, BackendInfo
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner_lab.simulation.records import StepTimes
from llm_planner_lab.simulation.trace import RequestStep


class WatchedBackend:
    """Implements ``core.interfaces.Backend`` around another one.

    Args:
        backend: Does the work.
        on_step: Receives every step and its output.
    """

    def __init__(
        self, backend: Backend, on_step: Callable[[SchedulerOutput, StepOutput], None] = lambda *_: None
    ) -> None:
        self._backend = backend
        self._on_step = on_step

    @property
    def info(self) -> BackendInfo:
        """Limits of the backend."""
        return self._backend.info

    def load_prefix(self, prefix_id: str, token_ids: Seq[int], adapter: str | None = None) -> int:
        """Passes on."""
        return self._backend.load_prefix(prefix_id, token_ids, adapter)

    def execute(self, scheduled: SchedulerOutput) -> StepOutput:
        """Runs one step and says so."""
        output = self._backend.execute(scheduled)
        self._on_step(scheduled, output)
        return output

    def close(self) -> None:
        """Closes the backend."""
        self._backend.close()


def request_steps(scheduled: SchedulerOutput, output: StepOutput) -> Iterator[tuple[str, RequestStep]]:
    """Yields what a step was for each request that it brought tokens, or the end."""
    ran = (output.step or scheduled).num_scheduled_tokens
    for request_id in output.token_ids.keys() | output.finished.keys():
        num_tokens = len(output.token_ids.get(request_id, ()))
        if num_tokens or request_id in output.finished:
            yield request_id, RequestStep(num_tokens, max(1, ran.get(request_id, 0)))


class LoggedBackend(WatchedBackend):
    """Keeps a list of the steps, and of what each was for a request.

    Args:
        path: The file that ``close`` writes.
        backend: Does the work.
    """

    def __init__(self, path: Path, backend: Backend) -> None:
        super().__init__(backend, self._log)
        self._path = path
        self._clock = MonotonicClock()
        self._steps: list[tuple[float, float, int, int]] = []
        self._of_requests: dict[str, list[RequestStep]] = defaultdict(list)
        self._is_closed = False

    def _log(self, scheduled: SchedulerOutput, output: StepOutput) -> None:
        ran = (output.step or scheduled).num_scheduled_tokens
        prompts = [n for n in ran.values() if n > MOST_DECODED_TOKENS]
        num_decodes = len(ran) - len(prompts)
        start_s = self._clock.now_s() - output.duration_s
        self._steps.append((start_s, output.duration_s, sum(prompts), num_decodes))
        for request_id, step in request_steps(scheduled, output):
            self._of_requests[request_id].append(step)

    def close(self) -> None:
        """Writes the list and closes the backend; safe to call twice."""
        if not self._is_closed:
            self._is_closed = True
            self._path.write_text(
                json.dumps({"steps": self._steps, "of_requests": self._of_requests}), encoding="utf-8"
            )
        super().close()


def read_log(path: Path, origin_s: float) -> tuple[tuple[StepTimes, ...], dict[str, tuple[RequestStep, ...]]]:
    """Returns a file's steps since ``origin_s``, from which their times count, and what they were for each request."""
    log = json.loads(path.read_text(encoding="utf-8"))
    steps = tuple(StepTimes(start_s - origin_s, *rest) for start_s, *rest in log["steps"] if start_s >= origin_s)
    return steps, {request_id: tuple(starmap(RequestStep, of_it)) for request_id, of_it in log["of_requests"].items()}
