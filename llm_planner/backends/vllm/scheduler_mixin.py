"""vLLM's own schedulers, made to run those that are named, and to leave everybody else as they are.

Suspension is: not being named. To vLLM the request goes on running, so it keeps its KV blocks, its token ids and its
place in its grammar; it is merely out of sight while a step is scheduled.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus

from llm_planner.backends.vllm.roster import Roster

if TYPE_CHECKING:
    from vllm.v1.core.sched.scheduler import Scheduler as _Base
else:
    _Base = object


class RosterMixin(_Base):
    """Goes before ``Scheduler`` or ``AsyncScheduler``.

    Attributes:
        roster: For the next step; without one nobody runs.
        scheduled: What the last call of ``schedule`` put into its step.
        completed: What was in the step that came back last; None until the next one does, once it was taken.
        given_up: Suspended requests that lost their KV, until somebody takes note.
        num_given_up: How many that were, in all.
    """

    running: list[Request]
    max_num_scheduled_tokens: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (vLLM's business)
        super().__init__(*args, **kwargs)
        self.roster = Roster()
        self.scheduled: dict[str, int] = {}
        self.completed: dict[str, int] | None = None
        self.given_up: list[str] = []
        self.num_given_up = 0
        self._max_tokens = self.max_num_scheduled_tokens

    def schedule(self, throttle_prefills: bool = False) -> SchedulerOutput:
        """Schedules those on the roster, in its order."""
        roster, self.roster = self.roster, Roster()
        named = [r for name in roster.num_tokens if (r := self.requests.get(name)) is not None and self._may_run(r)]
        self._make_room(named, roster)
        running = [r for r in named if r.status is RequestStatus.RUNNING]
        waiting = [r for r in named if r.status is not RequestStatus.RUNNING]
        chosen = set(named)
        parked = [r for r in self.running if r not in chosen]
        aside = [r for r in self.waiting if r not in chosen]
        self.running = running
        self._refill_waiting(waiting)
        self.max_num_scheduled_tokens = min(self._max_tokens, sum(roster.num_tokens.values()))
        # The newer model runner keeps a slot for everybody who has not finished; the older one only for who runs.
        self.max_num_active_reqs = self.max_num_running_reqs - (len(parked) if self.use_v2_model_runner else 0)
        output = super().schedule(throttle_prefills)
        self.running.extend(parked)
        self.waiting.extend(aside)
        self.scheduled = dict(output.num_scheduled_tokens)
        if waiting and not self.scheduled:
            self._give_up_next(roster, chosen)  # it did not fit, whatever we reckoned: there will be more room
        return output

    def update_from_output(
        self, scheduler_output: SchedulerOutput, model_runner_output: ModelRunnerOutput
    ) -> dict[int, Any]:
        """Notes which step came back."""
        self.completed = dict(scheduler_output.num_scheduled_tokens)
        return super().update_from_output(scheduler_output, model_runner_output)

    def _may_run(self, request: Request) -> bool:
        """Returns whether it may join the next step.

        A worker knows a token that is still in flight only in the step right after; whoever missed that waits for it.
        """
        return request.num_in_flight_tokens == 0 or request.request_id in self.scheduled

    def _refill_waiting(self, waiting: Iterable[Request]) -> None:
        self.waiting.clear()
        self.waiting.extend(waiting)

    # --- Memory

    def num_kv_tokens(self, request_id: str) -> int | None:
        """Returns how many tokens of a request have their KV, steps in flight not counted; None before it has run."""
        request = self.requests.get(request_id)
        if request is None or request.status not in {RequestStatus.RUNNING, RequestStatus.PREEMPTED}:
            return None
        return max(0, request.num_computed_tokens - request.num_in_flight_tokens)

    def give_up_kv(self, request: Request) -> None:
        """Takes the KV of a suspended request; it is computed again when it is named."""
        self.running.remove(request)
        self._preempt_request(request, timestamp=0.0)  # for statistics, which are off
        self.given_up.append(request.request_id)
        self.num_given_up += 1

    def _make_room(self, named: list[Request], roster: Roster) -> None:
        """Takes KV from the suspended until those that are named should fit."""
        chosen = set(named)
        needed = sum(self._missing_blocks(r, roster.num_tokens[r.request_id]) for r in named)
        while needed > self.num_free_blocks and self._give_up_next(roster, chosen):
            pass

    def _give_up_next(self, roster: Roster, chosen: set[Request]) -> bool:
        """Takes the KV of the next one in line: sleepers first, then others that are not named; False if none is."""
        asleep = (self.requests.get(name) for name in roster.asleep)
        others = reversed([r for r in self.running if r.request_id not in roster.asleep])
        for request in (*asleep, *others):
            if request is None or request in chosen or request.num_in_flight_tokens:
                continue
            if request.status is RequestStatus.RUNNING:
                self.give_up_kv(request)
                return True
        return False

    def _missing_blocks(self, request: Request, num_tokens: int) -> int:
        """Returns how many free blocks a request takes in its next step; all of its prompt if it has none yet."""
        if request.status is RequestStatus.RUNNING:
            held = len(self.kv_cache_manager.get_block_ids(request.request_id)[0])
            return max(0, -(-(request.num_computed_tokens + num_tokens) // self.block_size) - held)
        shared = self.kv_cache_manager.get_computed_blocks(request)[0].blocks[0]
        return -(-(request.num_tokens + 1) // self.block_size) - sum(block.ref_cnt > 0 for block in shared)

    @property
    def num_free_blocks(self) -> int:
        """Blocks that nobody holds; some may still be found again by what is in them."""
        return self.kv_cache_manager.block_pool.get_num_free_blocks()


class RosterScheduler(RosterMixin, Scheduler):
    """One step at a time."""


class RosterAsyncScheduler(RosterMixin, AsyncScheduler):
    """With steps in flight: vLLM's choice on GPUs."""
