# SPDX-License-Identifier: Apache-2.0
"""Drives one loop through a stream of jobs with time budgets, in virtual time that measured steps drive."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Backend
from llm_planner.core.request import PlanRequest, PlanResult
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.prediction.execution_time import ProfiledTimes
from llm_planner.prediction.profile import EngineProfile
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.admission import Admission
from llm_planner.serving.events import Event, Finished
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.preparation import Preparer
from llm_planner_lab.bench.step_log import WatchedBackend
from llm_planner_lab.bench.timebill.approaches import Approach

INSTANT_S = 1e-6
"""A period is this much longer than the budget: what is over by then has been ended."""
MAX_IDLE_TURNS = 1000
WARM_UP = "/warm-up"
"""Behind the name of a job in the ids of requests that do not count."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that comes.

    Attributes:
        arrival_s: When.
        prepare_s: What it takes to make it ready, the prediction of its length included where there is one.
    """

    request: PlanRequest
    arrival_s: float
    prepare_s: float


@dataclass(frozen=True, slots=True)
class Answer:
    """How a request ended, and when; ``is_skipped`` if it was not even admitted (Skip-Next)."""

    result: PlanResult
    arrival_s: float
    ended_s: float
    is_skipped: bool = False


@dataclass(slots=True)
class Driver:
    """Server and clock in one: the goal book at admission, the loop behind it, steps that take what they took.

    An arrival during a step reaches the book at once and the loop when the step is over, as in the servers.
    """

    loop: PlannerLoop
    book: GoalBook
    busy: "BusyTime"
    now_s: float = 0.0
    answers: dict[str, Answer] = field(default_factory=dict)
    _arrivals_s: dict[str, float] = field(default_factory=dict)
    _inbox: list[tuple[float, Event]] = field(default_factory=list)

    def run(self, arrivals: Iterable[Arrival]) -> Mapping[str, Answer]:
        """Returns the answer to each request, by id; arrivals come in order."""
        for arrival in arrivals:
            self._serve_until(arrival.arrival_s)
            self._receive(arrival.arrival_s)
            self._enter(arrival)
        self._serve_until(float("inf"))
        self._receive(float("inf"))
        return self.answers

    def warm_up(self, request: PlanRequest) -> None:
        """Serves a request without a budget, twice: a planner in service has seen prompts and decode steps before."""
        for number in range(2):
            again = replace(request, request_id=f"{request.request_id}{WARM_UP}{number}", time_budget_s=None)
            self.run([Arrival(again, self.now_s, 0.0)])
        self.answers.clear()

    def _serve_until(self, until_s: float) -> None:
        """Runs steps that begin before a time; the last one may end later."""
        num_idle = 0
        while (wakeup_s := self.loop.next_wakeup_s(self.now_s)) is not None and max(self.now_s, wakeup_s) < until_s:
            self.now_s = max(self.now_s, wakeup_s)
            before_s = self.busy.total_s
            events = self.loop.step(self.now_s)
            self.now_s += self.busy.total_s - before_s
            self._inbox += [(self.now_s, event) for event in events]
            num_idle = 0 if events or self.busy.total_s > before_s else num_idle + 1
            if num_idle > MAX_IDLE_TURNS:
                raise PlannerError(ErrorCode.ENGINE_FAILED, "the planner loop does nothing and never sleeps")

    def _receive(self, until_s: float) -> None:
        """Passes to the book what happened until a time."""
        while self._inbox and self._inbox[0][0] <= until_s:
            time_s, event = self._inbox.pop(0)
            self._note(self.book.accept(event, time_s), time_s)

    def _enter(self, arrival: Arrival) -> None:
        request, arrival_s = arrival.request, arrival.arrival_s
        for event in self.book.take_overdue(arrival_s, has_engine=lambda _: True):
            self._note(event, arrival_s)
            if isinstance(event, Finished):
                self.loop.cancel(event.request_id)
        self._arrivals_s[request.request_id] = arrival_s
        try:
            self.book.open(request, arrival_s)
        except PlannerError as error:
            result = PlanResult(request_id=request.request_id, error_code=error.code, error_msg=error.message)
            self.answers[request.request_id] = Answer(result, arrival_s, arrival_s, is_skipped=True)
            return
        self.now_s = max(self.now_s, arrival_s) + arrival.prepare_s
        self._inbox += [(self.now_s, event) for event in self.loop.submit(request, arrival_s)]

    def _note(self, event: Event | None, time_s: float) -> None:
        if isinstance(event, Finished):
            self.answers[event.request_id] = Answer(event.result, self._arrivals_s[event.request_id], time_s)


@dataclass(slots=True)
class BusyTime:
    """How long the engine was at work."""

    total_s: float = 0.0

    def see(self, _scheduled: SchedulerOutput, output: StepOutput) -> None:
        """Notes a step."""
        self.total_s += output.duration_s


def make_driver(
    backend: Backend,
    preparer: Preparer,
    approach: Approach,
    profile: EngineProfile,
    admission: Admission,
    scheduler: SchedulerConfig,
) -> Driver:
    """Returns a driver of a new loop, which knows the engine's times and keeps budgets as the approach does."""
    busy = BusyTime()
    watched = WatchedBackend(backend, busy.see)
    policy = make_policy(scheduler.policy)
    loop = PlannerLoop(
        backend=watched,
        scheduler=Scheduler(scheduler, policy, watched.info, ProfiledTimes(profile)),
        preparer=preparer,
        do_clients_report=False,
        budgets=approach.budgets,
    )
    book = GoalBook(admission)
    loop.tell_admissions(lambda goal: book.admit(goal.request.request_id, is_capped=goal.is_capped))
    return Driver(loop, book, busy)


def periodic(requests: Iterable[tuple[PlanRequest, float]], start_s: float) -> Iterator[Arrival]:
    """Yields arrivals whose period is the budget: the next request comes when the budget of the last one is over.

    Args:
        requests: Each with the seconds that it takes to prepare it.
        start_s: When the first one comes.
    """
    time_s = start_s
    for request, prepare_s in requests:
        yield Arrival(request, time_s, prepare_s)
        time_s += (request.time_budget_s or 0.0) + INSTANT_S
