# SPDX-License-Identifier: Apache-2.0
"""vLLM's own schedulers, made to run the requests that are named, and to leave all others as they are.

Suspension is: not being named. To vLLM the request goes on running, so it keeps its KV blocks, its token ids and its
place in its grammar; it is merely out of sight while a step is scheduled.

    plan(roster): what may be in the next step -> vLLM's core: schedule(), run -> update_from_output(): what came back
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.request_queue import FCFSRequestQueue
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus

from llm_planner.backends.vllm.micro_batches import Candidate, MicroBatches
from llm_planner.backends.vllm.roster import Roster

if TYPE_CHECKING:
    from vllm.v1.core.sched.scheduler import Scheduler as _Base
else:
    _Base = object


_ADMITTED = (RequestStatus.RUNNING, RequestStatus.PREEMPTED)
_QUEUED = (RequestStatus.WAITING, RequestStatus.PREEMPTED)  # for room, and not for KV from elsewhere or for a grammar


class WatchedMixin(_Base):
    """Says what vLLM schedules and what comes back, and changes nothing. Goes before ``Scheduler`` or another one.

    Attributes:
        scheduled: What ``schedule`` put into a step since ``plan``.
        completed: What was in the step that came back since ``plan``; None if none did.
        rejected: Of it, how many drafted tokens of each request were wrong.
        given_up: Suspended requests that lost their KV, until the caller takes note.
        micro_batches: Divides the work of a pipeline; None where all that is named may be in one step.
        num_in_flight: Steps that were scheduled and did not come back yet.
        num_calls: How often vLLM was asked for a step.
        num_empty_calls: How often it had no request for one.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.scheduled: dict[str, int] = {}
        self.completed: dict[str, int] | None = None
        self.rejected: dict[str, int] = {}
        self.given_up: list[str] = []
        self.micro_batches: MicroBatches | None = None
        self.num_in_flight = self.num_calls = self.num_empty_calls = 0

    def plan(self, roster: Roster) -> None:
        """Begins a step."""
        self.scheduled, self.completed, self.rejected = {}, None, {}

    def schedule(self, throttle_prefills: bool = False) -> SchedulerOutput:
        """Notes what vLLM schedules."""
        output = super().schedule(throttle_prefills)
        self.scheduled = dict(output.num_scheduled_tokens)
        self.num_calls += 1
        self.num_empty_calls += not self.scheduled
        self.num_in_flight += bool(self.scheduled)
        return output

    def update_from_output(
        self, scheduler_output: SchedulerOutput, model_runner_output: ModelRunnerOutput
    ) -> dict[int, Any]:
        """Notes which step came back."""
        self.completed = dict(scheduler_output.num_scheduled_tokens)
        self.rejected = _count_rejected(scheduler_output, model_runner_output)
        self.num_in_flight -= bool(self.completed)
        return super().update_from_output(scheduler_output, model_runner_output)

    def num_kv_tokens(self, request_id: str) -> int | None:
        """Returns how many tokens of a request have their KV, steps in flight not counted; None before it has run."""
        request = self.requests.get(request_id)
        if request is None or request.status not in _ADMITTED:
            return None
        return max(0, request.num_computed_tokens - request.num_in_flight_tokens)

    def num_draft_slots(self, request: Request) -> int:
        """Returns how many tokens may be drafted behind a request, and one be written behind them; 0 without KV."""
        if request.status is not RequestStatus.RUNNING:
            return 0
        return max(0, self.max_model_len - request.num_tokens - 1)

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no request holds; some may still be found again by what is in them."""
        return self.kv_cache_manager.block_pool.get_num_free_blocks()


class RosterMixin(WatchedMixin):
    """Makes vLLM schedule those that are named, in our order. Goes before ``Scheduler`` or ``AsyncScheduler``.

    Attributes:
        num_given_up: How many suspended requests lost their KV.
    """

    running: list[Request]
    max_num_scheduled_tokens: int
    num_spec_tokens: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.num_given_up = 0
        self._roster = Roster()
        self._named: list[Request] = []
        self._last: dict[str, int] = {}  # what the workers were handed last
        self._max_tokens = self._budget = self.max_num_scheduled_tokens
        # Drafts are put behind requests (``drafts``). vLLM would also make up some, to be rejected, for a request with
        # one token left to compute, and would not schedule it where the budget has no room for them.
        self.num_spec_tokens = 0

    def plan(self, roster: Roster) -> None:
        """Chooses, for the next step, among those on the roster."""
        super().plan(roster)
        self._roster = roster
        named = [r for name in roster.num_tokens if (r := self.requests.get(name)) is not None]
        # vLLM 0.32 on a CPU takes wrong tokens where some requests of a step sample and others have drafts.
        takes_drafts = not any(r.sampling_params.temperature for r in named)
        for request in named:
            if request.spec_token_ids:  # no more of them than our scheduler has room for
                num_drafted = roster.num_tokens[request.request_id] - _num_known(request)
                request.spec_token_ids = request.spec_token_ids[: takes_drafts * max(0, num_drafted)]
        self._budget = min(self._max_tokens, sum(roster.num_tokens.values()))
        if self.micro_batches is not None:
            candidates = [self._candidate(r, roster) for r in named]
            chosen, self._budget = self.micro_batches.choose(candidates, self.num_in_flight)
            named = [self.requests[name] for name in chosen]
        self._named = [r for r in named if self._may_run(r)]

    def has_requests(self) -> bool:
        """Returns whether vLLM has something to do now: if not, it waits for a step in flight, if any."""
        return bool(self._named) or self._must_tell_losses

    def schedule(self, throttle_prefills: bool = False) -> SchedulerOutput:
        """Schedules those that are planned, in their order."""
        named, self._named = self._named, []
        self._make_room(named)
        running = [r for r in named if r.status is RequestStatus.RUNNING]
        waiting = [r for r in named if r.status is not RequestStatus.RUNNING]
        chosen, holding = set(named), set(self.kv_holding_waiting)
        parked = [r for r in self.running if r not in chosen]
        aside = [r for r in self.waiting if r not in chosen]
        holding_aside = [r for r in self.kv_holding_waiting if r not in chosen]
        self.running = running
        _refill(self.waiting, (r for r in waiting if r not in holding))
        _refill(self.kv_holding_waiting, (r for r in waiting if r in holding))
        self.max_num_scheduled_tokens = self._budget
        # The newer model runner keeps a slot for every unfinished request; the older one only for running ones.
        self.max_num_active_reqs = self.max_num_running_reqs - (len(parked) if self.use_v2_model_runner else 0)
        output = super().schedule(throttle_prefills)
        self.running.extend(parked)
        self.waiting.extend(aside)
        self.kv_holding_waiting.extend(holding_aside)
        self._last = self.scheduled
        if self.micro_batches is not None:
            self.micro_batches.scheduled(self.scheduled)
        if not self.scheduled and any(r.status in _QUEUED for r in waiting):
            self._give_up_next(chosen)  # it did not fit, whatever we reckoned: there will be more room
        return output

    def _may_run(self, request: Request) -> bool:
        """Returns whether it may join the next step.

        A worker knows a token that is still in flight only in the step right after; a request that missed that step
        waits for the token. What offloads KV learns of a loss in a step, and must know of it before it brings KV back.
        """
        if self._must_tell_losses and request.request_id in self.reset_preempted_req_ids:
            return False
        return request.num_in_flight_tokens == 0 or request.request_id in self._last

    @property
    def _must_tell_losses(self) -> bool:
        """Whether KV was given up outside of a step, and something that offloads KV is to be told."""
        return self.connector is not None and bool(self.reset_preempted_req_ids)

    def _candidate(self, request: Request, roster: Roster) -> Candidate:
        is_running = request.status is RequestStatus.RUNNING
        num_tokens = roster.num_tokens[request.request_id]
        if is_running:
            num_tokens = _num_known(request)
        return Candidate(
            request_id=request.request_id,
            num_tokens=num_tokens if self._may_run(request) else 0,
            kv_tokens=request.num_computed_tokens,
            is_begun=is_running,
            is_urgent=request.request_id in roster.urgent,
        )

    # --- Memory

    def give_up_kv(self, request: Request) -> None:
        """Takes the KV of a suspended request; it is computed again when it is named."""
        self.running.remove(request)
        self._preempt_request(request, timestamp=0.0)  # for statistics, which are off
        self.given_up.append(request.request_id)
        self.num_given_up += 1

    def _make_room(self, named: list[Request]) -> None:
        """Takes KV from the suspended until those that are named should fit."""
        tokens = (
            self._roster.num_tokens[r.request_id] if r.status is RequestStatus.RUNNING else r.num_tokens + 1
            for r in named
        )
        if sum(n // self.block_size + 2 for n in tokens) <= self.num_free_blocks:
            return  # whatever they hold already
        chosen = set(named)
        needed = sum(self._missing_blocks(r, self._roster.num_tokens[r.request_id]) for r in named)
        while needed > self.num_free_blocks and self._give_up_next(chosen):
            pass

    def _give_up_next(self, chosen: set[Request]) -> bool:
        """Takes the KV of the next one in line: suspended ones first, then others off the roster; False if none is."""
        suspended = (self.requests.get(name) for name in self._roster.suspended)
        passive = [r for r in self.running if r.request_id not in {*self._roster.suspended, *self._roster.num_tokens}]
        for request in (*suspended, *reversed(passive)):
            if request is None or request in chosen or request.num_in_flight_tokens:
                continue
            if request.status is RequestStatus.RUNNING:
                self.give_up_kv(request)
                return True
        return False

    def _missing_blocks(self, request: Request, num_tokens: int) -> int:
        """Returns how many free blocks a request takes in its next step; all of its prompt if it has none yet."""
        is_running = request.status is RequestStatus.RUNNING
        if is_running or request in self.kv_holding_waiting:
            held = len(self.kv_cache_manager.get_block_ids(request.request_id)[0])
            wanted = request.num_computed_tokens + num_tokens if is_running else request.num_tokens + 1
            return max(0, -(-wanted // self.block_size) - held)
        shared = self.kv_cache_manager.get_computed_blocks(request)[0].blocks[0]
        return -(-(request.num_tokens + 1) // self.block_size) - sum(block.ref_cnt > 0 for block in shared)


def _refill(queue: FCFSRequestQueue, requests: Iterable[Request]) -> None:
    queue.clear()
    queue.extend(requests)


def _num_known(request: Request) -> int:
    """Returns how many tokens are known and not scheduled yet, drafts not counted."""
    return int(request.num_tokens + request.num_output_placeholders - request.num_computed_tokens)


def _count_rejected(scheduled: SchedulerOutput, output: ModelRunnerOutput) -> dict[str, int]:
    """Returns how many drafted tokens of each request are not kept: each step yields one token more than it accepts."""
    rejected = {}
    for name, drafted in scheduled.scheduled_spec_decode_tokens.items():
        num_sampled = len(output.sampled_token_ids[output.req_id_to_index[name]])
        rejected[name] = len(drafted) + 1 - num_sampled if num_sampled else 0
    return rejected


class RosterScheduler(RosterMixin, Scheduler):
    """One step at a time."""


class RosterAsyncScheduler(RosterMixin, AsyncScheduler):
    """With steps in flight: vLLM's choice on GPUs."""
