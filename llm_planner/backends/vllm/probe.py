# SPDX-License-Identifier: Apache-2.0
"""Whether vLLM still does what our scheduler counts on: tried at every start, with two requests and a few steps."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from llm_planner.backends.vllm.contract import missing_attributes, require_none
from llm_planner.core.step import SchedulerOutput, Sequence

if TYPE_CHECKING:
    from llm_planner.backends.vllm.backend import VllmBackend

ENDLESS_GRAMMAR = "start: /[ab]{2048}/\n"
"""Of a request that writes as long as anyone wants, whatever the model."""

_PROMPT_TOKENS = 4
_MAX_STEPS = 20  # of a pipeline, until the first token


def require_behaviour(backend: "VllmBackend") -> None:
    """Makes sure that requests which are named run, within their tokens, and that others stay as they are.

    Args:
        backend: Without requests.

    Raises:
        PlannerError: VERSION_MISMATCH, naming what vLLM does otherwise.
    """
    core = backend.engine.core
    require_none(missing_attributes("core", core) + missing_attributes("scheduler", core.scheduler))
    require_none(_Probe(backend).run())


class _Probe:
    """Two requests of a few tokens, until they are released."""

    def __init__(self, backend: "VllmBackend") -> None:
        self._backend, self._scheduler = backend, backend.engine.scheduler
        prompt = (backend.tokenizer.encode("a")[0],) * _PROMPT_TOKENS
        self._new = {
            name: Sequence(request_id=name, prompt_token_ids=prompt, grammar=ENDLESS_GRAMMAR)
            for name in ("probe a", "probe b")
        }

    def run(self) -> list[str]:
        """Returns what differs."""
        num_free = self._scheduler.num_free_blocks
        first, second = self._new
        problems = []
        if (scheduled := self._step({first: 1})) != {first: 1}:
            problems.append(f"of a step of 1 token, {scheduled or 'nothing'} is scheduled")
        problems += missing_attributes("request", next(iter(self._scheduler.requests.values()), None))
        problems += self._write(first)
        kept = self._num_kv_tokens(first)
        problems += self._write(second, suspended=first)
        if self._num_kv_tokens(first) != kept:
            problems.append("a request that was not named did not stay as it was")
        if (scheduled := self._step({first: 1})) != {first: 1}:
            problems.append(f"of a request that is named again, {scheduled or 'nothing'} is scheduled")
        self._settle()
        self._backend.execute(SchedulerOutput(release=(first, second)))
        if self._scheduler.num_free_blocks != num_free:
            problems.append("requests that have ended hold KV blocks")
        return problems

    def _step(self, num_tokens: Mapping[str, int], suspended: tuple[str, ...] = ()) -> dict[str, int]:
        """Hands a step over; returns what was scheduled."""
        new = tuple(self._new.pop(name) for name in num_tokens if name in self._new)
        self._written = self._backend.execute(
            SchedulerOutput(new=new, num_scheduled_tokens=num_tokens, suspended=suspended)
        ).token_ids
        return {name.rpartition("#")[0]: n for name, n in self._scheduler.scheduled.items()}

    def _write(self, name: str, suspended: str = "") -> list[str]:
        """Has a request write its first token, alone; returns what is wrong."""
        for _ in range(_MAX_STEPS):
            scheduled = self._step({name: _PROMPT_TOKENS}, (suspended,) if suspended else ())
            if others := scheduled.keys() - {name}:
                return [f"{len(others)} requests ran that were not named"]
            if name in self._written:
                self._settle()
                return []
        return ["a request that was named wrote nothing"]

    def _settle(self) -> None:
        """Takes back the steps in flight."""
        while self._scheduler.num_in_flight:
            self._step({"none": 1})

    def _num_kv_tokens(self, name: str) -> int | None:
        inner = next((r for r in self._scheduler.requests if r.rpartition("#")[0] == name), name)
        return self._scheduler.num_kv_tokens(inner)
