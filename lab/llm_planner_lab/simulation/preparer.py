# SPDX-License-Identifier: Apache-2.0
"""Makes requests of a trace ready for the planner's loop."""

from collections.abc import Callable, Mapping

from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.step import Sequence
from llm_planner.planning.failure_context import FailureContext
from llm_planner.planning.prompt import PromptStyle
from llm_planner.serving.preparation import Prepared, Replan
from llm_planner_lab.simulation.script import Script, ScriptedSession, split_tokens
from llm_planner_lab.simulation.trace import RequestStep, TraceRequest


class ScriptPreparer:
    """Makes requests of a trace ready: prompts of the right length, scripted sessions.

    Args:
        scripts: By request id.
        rows: By request id.
        load_prefix: Of the backend.
    """

    def __init__(
        self,
        scripts: Mapping[str, Script],
        rows: Mapping[str, TraceRequest],
        load_prefix: Callable[[str, tuple[int, ...]], int],
    ) -> None:
        self._can_fail = any(row.failures for row in rows.values())  # else no KV is kept for what cannot happen
        self._sessions: dict[str, ScriptedSession] = {}
        self._scripts = scripts
        self._rows = rows
        self._load_prefix = load_prefix

    def prepare(self, request: PlanRequest) -> Prepared:
        """Returns the request ready to be scheduled."""
        row = self._rows[request.request_id]
        prefix_id = f"{row.robot_model}/{row.num_static_tokens}"
        cached = self._load_prefix(prefix_id, (0,) * row.num_static_tokens)
        sequence = Sequence(
            request_id=request.request_id,
            prompt_token_ids=(0,) * (row.num_static_tokens + row.num_dynamic_tokens),
            prefix_id=prefix_id if cached else None,
            num_cached_tokens=cached,
        )
        session = self._sessions[row.request_id] = ScriptedSession(self._scripts[row.request_id])
        can_fail = self._can_fail and request.urgency is not Urgency.CHAT
        return Prepared(sequence, session, begin_replan=self._begin_replan if can_fail else None)

    def num_tokens(self, request_id: str) -> int:
        """Returns how many tokens the model writes: the plan, or what is left of it."""
        return self._sessions[request_id].script.num_tokens

    def steps(self, request_id: str) -> tuple[RequestStep, ...]:
        """Returns the steps in which they come; empty for one each."""
        is_plan = self._sessions[request_id].script is self._scripts[request_id]
        return self._rows[request_id].steps if is_plan else ()

    def _begin_replan(self, request: PlanRequest) -> Replan:
        """Has the model read ``planning.failure_context``, as a chat model does, and write what is left of its plan."""
        row = self._rows[request.request_id]
        plan, failure = self._scripts[row.request_id].segments, row.failures[len(request.failures) - 1]
        done = "".join(segment.text for segment in plan[: failure.segment])
        failure_context = FailureContext(
            instruction=row.instruction,
            scene=row.scene,
            scene_before="",  # it is described again
            done=done,
            failed=plan[failure.segment].text,
            reason=failure.reason,
        )
        token_ids = (0,) * len(split_tokens(failure_context.text(PromptStyle.INSTRUCT)))
        return Replan(self._sessions[row.request_id].begin_replan(failure.segment), token_ids)
