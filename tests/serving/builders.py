# SPDX-License-Identifier: Apache-2.0
"""Builders with defaulted arguments for tests of the loop and the servers."""

from collections.abc import Mapping
from typing import Any

from llm_planner.core.config import PlannerConfig, SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.pose import Pose
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.segment import ExpectedDuration, ReportStatus, Segment, SegmentReport
from llm_planner.core.skill import SkillCall
from llm_planner.core.step import Sequence
from llm_planner.language.parser import IncrementalParser
from llm_planner.language.syntax import Assign, Call, If, Loop, Statement
from llm_planner.planning.safety.gate import Mark
from llm_planner.planning.session import PlanSession
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.admission import Admission
from llm_planner.serving.fake import FakeBackend, FakeTokenizer
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.preparation import Prepared, Preparer


class StubGate:
    """Refuses the skill ``forbidden`` and takes everything else."""

    mark = Mark({}, ())

    def restart(self, mark: Mark, pose: Pose | None, *, is_whole: bool) -> None:
        """Knows no poses."""

    def admit(self, statement: Statement) -> tuple[SkillCall, ...]:
        if isinstance(statement, Call):
            if statement.name == "forbidden":
                raise PlannerError(ErrorCode.UNKNOWN_SKILL, "no skill forbidden")
            return (SkillCall(statement.name, ()),)
        return ()


def stub_duration(statement: Statement) -> ExpectedDuration:
    """One second per call; ``scan`` between 0.5 and 10 s; ``fast`` none."""
    match statement:
        case Call(name="scan"):
            return ExpectedDuration(min_s=0.5, p50_s=4.0, p90_s=10.0)
        case Call(name="fast"):
            return ExpectedDuration(min_s=0.0, p50_s=0.0, p90_s=0.0)
        case Call() | Assign():
            return ExpectedDuration(min_s=1.0, p50_s=1.0, p90_s=1.0)
        case Loop(body=body) | If(body=body):
            return ExpectedDuration(min_s=1.0, p50_s=len(body), p90_s=len(body))
        case _:
            return ExpectedDuration(min_s=0.0, p50_s=0.0, p90_s=0.0)


class StubPreparer:
    """Prompts of a shared system text and the instruction; no robot models needed."""

    def __init__(self, backend: FakeBackend, system: str = "you are a robot " * 8) -> None:
        self.backend = backend
        self.system = system

    def prepare(self, request: PlanRequest) -> Prepared:
        tokenizer = self.backend.tokenizer
        static_ids = tokenizer.encode(self.system)
        delivered_ids = tokenizer.encode("".join(s.text for s in request.delivered))
        sequence = Sequence(
            request_id=request.request_id,
            prompt_token_ids=(*static_ids, *tokenizer.encode(request.instruction + "\n"), *delivered_ids),
            prefix_id="system",
            num_cached_tokens=self.backend.load_prefix("system", static_ids),
        )
        return Prepared(sequence, make_session(request.delivered, tokenizer), len(delivered_ids))


def make_session(
    delivered: tuple[Segment, ...] = (),
    tokenizer: FakeTokenizer | None = None,
    failures: tuple[SegmentReport, ...] = (),
    *,
    opens_blocks: bool = False,
    gate: StubGate | None = None,
    **options: Any,
) -> PlanSession:
    return PlanSession(
        tokenizer=tokenizer or FakeTokenizer(),
        parser=IncrementalParser(opens_blocks=opens_blocks),
        gate=gate or StubGate(),
        expected_duration=stub_duration,
        delivered=delivered,
        failures=failures,
        **options,
    )


def make_loop(
    plans: Mapping[str, str] | None = None,
    *,
    policy: str = "fcfs_segment",
    backend: FakeBackend | None = None,
    do_clients_report: bool = True,
    stopwatch: Clock | None = None,
    preparer: Preparer | None = None,
    **scheduler: Any,
) -> PlannerLoop:
    backend = backend or FakeBackend(plans=plans or {})
    config = SchedulerConfig(policy=policy, **scheduler)
    return PlannerLoop(
        backend=backend,
        scheduler=Scheduler(config, make_policy(policy), backend.info),
        preparer=preparer or StubPreparer(backend),
        do_clients_report=do_clients_report,
        stopwatch=stopwatch,
    )


def make_admission(**config: Any) -> Admission:
    return Admission(PlannerConfig(**config), frozenset({"tello", "indy7"}))


def make_request(request_id: str = "r1", instruction: str = "go", **changes: Any) -> PlanRequest:
    fields: dict[str, Any] = {"robot_id": f"robot_{request_id}", "robot_model": "tello", "urgency": Urgency.NORMAL}
    return PlanRequest(request_id=request_id, instruction=instruction, **(fields | changes))


def make_segment(index: int = 0, text: str = "a();", seconds: float = 1.0) -> Segment:
    expected = ExpectedDuration(min_s=seconds, p50_s=seconds, p90_s=seconds)
    return Segment(index=index, text=text, calls=(), expected=expected)


def started(request_id: str, index: int) -> SegmentReport:
    return SegmentReport(request_id=request_id, index=index, status=ReportStatus.STARTED)


def succeeded(request_id: str, index: int, duration_s: float = 1.0) -> SegmentReport:
    return SegmentReport(request_id=request_id, index=index, status=ReportStatus.SUCCEEDED, duration_s=duration_s)


def failed(request_id: str, index: int, reason: str = "") -> SegmentReport:
    return SegmentReport(request_id=request_id, index=index, status=ReportStatus.FAILED, reason=reason)
