# SPDX-License-Identifier: Apache-2.0
"""Steps of an engine that runs less than it is handed, or has several in flight, as whole ones that can be timed."""

from collections import Counter, defaultdict
from collections.abc import Sequence as Seq
from dataclasses import replace

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Backend, BackendInfo
from llm_planner.core.step import SchedulerOutput, StepOutput

MOST_CALLS = 10_000


class WholeSteps:
    """Implements ``core.interfaces.Backend`` around another one.

    It goes on until everything that a step names was computed; the whole takes as long as all of it took.

    What comes before anything is computed does not count: a grammar that is being compiled keeps no engine busy.

    Args:
        backend: Does the work.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def info(self) -> BackendInfo:
        """Limits of the backend."""
        return self._backend.info

    def load_prefix(self, prefix_id: str, token_ids: Seq[int], adapter: str | None = None) -> int:
        """Passes on."""
        return self._backend.load_prefix(prefix_id, token_ids, adapter)

    def close(self) -> None:
        """Closes the backend."""
        self._backend.close()

    def execute(self, scheduled: SchedulerOutput) -> StepOutput:
        """Runs the step to its end.

        Raises:
            PlannerError: ENGINE_FAILED if the engine does not get on with it.
        """
        missing = Counter(scheduled.num_scheduled_tokens)
        token_ids: dict[str, tuple[int, ...]] = defaultdict(tuple)
        output = self._backend.execute(scheduled)
        whole, duration_s, has_begun = output, 0.0, False
        for _ in range(MOST_CALLS):
            ran = (output.step or scheduled).num_scheduled_tokens
            has_begun = has_begun or bool(ran) or not scheduled.num_scheduled_tokens
            duration_s += output.duration_s if has_begun else 0.0
            missing -= Counter(ran)
            for name, ids in output.token_ids.items():
                token_ids[name] += tuple(ids)
            whole = replace(
                output, finished={**whole.finished, **output.finished}, failed={**whole.failed, **output.failed}
            )
            left = {n: count for n, count in missing.items() if n not in whole.finished and n not in whole.failed}
            if not left:
                return replace(whole, token_ids=dict(token_ids), duration_s=duration_s, step=None)
            output = self._backend.execute(SchedulerOutput(num_scheduled_tokens=left))
        raise PlannerError(ErrorCode.ENGINE_FAILED, f"the engine does not get on with {', '.join(left)}")
