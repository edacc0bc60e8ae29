# SPDX-License-Identifier: Apache-2.0
"""How much a loop has done since it began, for people: nothing is decided by it."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace

from llm_planner.core.interfaces import Clock
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.scheduling.scheduler import Scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums since the loop began; they only grow, so two of them tell what happened in between.

    Attributes:
        num_computed_tokens: Prompt tokens and decoded ones.
        num_output_tokens: Tokens that came out.
        busy_s: Time in which the engine ran steps.
        decision_s: Time in which the scheduler made ``num_decisions``; 0 of 0 if no clock measured it.
    """

    num_steps: int = 0
    num_computed_tokens: int = 0
    num_output_tokens: int = 0
    busy_s: float = 0.0
    num_decisions: int = 0
    decision_s: float = 0.0


def summed(totals: Sequence[Totals]) -> Totals:
    """Returns what some loops have done one after the other."""
    sums = [sum(column) for column in zip(*map(astuple, totals), strict=True)]
    return Totals(**dict(zip((field.name for field in fields(Totals)), sums, strict=True)))


def merged_totals(totals: Sequence[Totals]) -> Totals:
    """Returns the sums of loops side by side, but the mean of the time in which they were busy: a share stays one."""
    merged = summed(totals)
    return replace(merged, busy_s=merged.busy_s / len(totals))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What happened between two moments.

    Attributes:
        tokens_per_s: Tokens that came out.
        busy_share: Share of the time in which the engine ran a step.
        decision_s: Mean time of one decision of the scheduler; None if it made none.
    """

    tokens_per_s: float
    computed_tokens_per_s: float
    steps_per_s: float
    busy_share: float
    decision_s: float | None


class Meter:
    """Counts the steps of one loop.

    Args:
        stopwatch: Measures decisions; None where time is virtual.

    Attributes:
        totals: The sums so far.
    """

    def __init__(self, stopwatch: Clock | None = None) -> None:
        self._stopwatch = stopwatch
        self.totals = Totals()

    def now_s(self) -> float:
        """Returns the time of the stopwatch; always 0 without one."""
        return 0.0 if self._stopwatch is None else self._stopwatch.now_s()

    def decide(self, scheduler: Scheduler, now_s: float) -> SchedulerOutput:
        """Returns the scheduler's next step, and notes how long it took to decide on it."""
        if self._stopwatch is None:
            return scheduler.schedule(now_s)
        began_s = self._stopwatch.now_s()
        scheduled = scheduler.schedule(now_s)
        if not scheduled.is_empty:
            decision_s = self.totals.decision_s + self._stopwatch.now_s() - began_s
            self.totals = replace(self.totals, num_decisions=self.totals.num_decisions + 1, decision_s=decision_s)
        return scheduled

    def count(self, scheduled: SchedulerOutput, output: StepOutput) -> None:
        """Adds a step that was executed."""
        self.totals = replace(
            self.totals,
            num_steps=self.totals.num_steps + 1,
            num_computed_tokens=self.totals.num_computed_tokens + sum(scheduled.num_scheduled_tokens.values()),
            num_output_tokens=self.totals.num_output_tokens + sum(map(len, output.token_ids.values())),
            busy_s=self.totals.busy_s + output.duration_s,
        )


def have_fallen(before: Totals, after: Totals) -> bool:
    """Returns whether another loop has begun to count meanwhile: sums of one only grow."""
    return any(new < old for old, new in zip(astuple(before), astuple(after), strict=True))


def rates(before: Totals, after: Totals, duration_s: float) -> Rates | None:
    """Returns what happened in ``duration_s``; None if no time passed, or another loop began to count meanwhile."""
    if duration_s <= 0 or have_fallen(before, after):
        return None
    num_decisions = after.num_decisions - before.num_decisions
    return Rates(
        tokens_per_s=(after.num_output_tokens - before.num_output_tokens) / duration_s,
        computed_tokens_per_s=(after.num_computed_tokens - before.num_computed_tokens) / duration_s,
        steps_per_s=(after.num_steps - before.num_steps) / duration_s,
        busy_share=min(1.0, (after.busy_s - before.busy_s) / duration_s),
        decision_s=(after.decision_s - before.decision_s) / num_decisions if num_decisions else None,
    )
