# SPDX-License-Identifier: Apache-2.0
"""Several tokens per step on vLLM: a draft behind each request, which vLLM verifies in its next step.

vLLM asks a class of ours for drafts in its workers, which know neither requests nor grammars. Scheduler and grammars
are in this process, so drafts are made here, once the tokens of a step have come back, and put behind the request.
Tokens that the grammar forces are drafts, too: nothing else is in vLLM's mask, so they are always right.
"""

import math
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, Any

from llm_planner.backends.vllm.probe import ENDLESS_GRAMMAR
from llm_planner.core.clock import MonotonicClock, ProcessorClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.step import SchedulerOutput, Sequence
from llm_planner.engine.drafting import MAX_DRAFT_TOKENS, Drafter, StepCost
from llm_planner.engine.grammar import Matcher
from llm_planner.engine.lookahead import Lookahead

if TYPE_CHECKING:
    from vllm.v1.request import Request

    from llm_planner.backends.vllm.backend import VllmBackend

_PROBE = "step cost"
_PROBED_TOKENS = 128
_NUM_PROBES = 5
_PROBE_S = 0.5  # a slow model is measured less often


class NoDrafts:
    """Vllm's hook in the worker that samples (``speculative_config``, method ``custom_class``): drafts nothing there.

    Args:
        config: Of vLLM.
    """

    def __init__(self, config: Any) -> None:
        del config

    def load_model(self, model: Any) -> None:
        """Needs no weights."""

    def propose(self, sampled_token_ids: Seq[Seq[int]], *_: Any, **__: Any) -> list[list[int]]:
        """Returns an empty draft for each request."""
        return [[] for _ in sampled_token_ids]


PROPOSER = f"{NoDrafts.__module__}.{NoDrafts.__qualname__}"


class ForcedTokens:
    """Drafts what the grammar forces, and guesses nothing."""

    def advance(self, token_ids: Seq[int]) -> None:
        """Learns nothing."""

    def draft(self, matcher: Matcher | None, max_tokens: int, least_probability: float) -> tuple[int, ...]:
        """Returns the tokens that must come next, at most ``max_tokens``."""
        fork = None if matcher is None else matcher.fork()
        forced: list[int] = []
        while fork is not None and len(forced) < max_tokens and (token_id := fork.forced_token()) is not None:
            if not fork.try_accept(token_id):
                break
            forced.append(token_id)
        return tuple(forced)


class Drafts:
    """Keeps a drafter for each request of a vLLM, and puts its drafts behind the request.

    Deviation from our own engine: nothing is drafted for a request that samples, forced tokens included, because vLLM
    spends random numbers on drafts, and its text would be another one.

    Args:
        mode: Of ``lookahead.Lookahead``.

    Raises:
        PlannerError: INVALID_CONFIG for an unknown mode.
    """

    def __init__(self, mode: str) -> None:
        self.lookahead = Lookahead(mode)
        self._drafters: dict[str, Drafter | ForcedTokens] = {}

    def open(self, sequence: Sequence) -> None:
        """Begins to follow a new request; one of the same name is forgotten."""
        self.forget(sequence.request_id)
        if self.lookahead.adds_forced_tokens and sequence.sampling.temperature == 0:
            self._drafters[sequence.request_id] = self.lookahead.drafter(sequence) or ForcedTokens()

    def forget(self, request_id: str) -> None:
        """Drops what is known of a request that has ended."""
        self._drafters.pop(request_id, None)

    def extend(self, request_id: str, request: "Request", token_ids: Seq[int], max_tokens: int, num_seqs: int) -> None:
        """Learns what a request wrote, and puts a new draft behind it.

        Args:
            request_id: Our name of the request.
            request: Vllm's; its grammar has taken ``token_ids`` already.
            token_ids: New ones.
            max_tokens: Most tokens that may be drafted.
            num_seqs: Requests in the step, among which its cost is divided.
        """
        drafter = self._drafters.get(request_id)
        if drafter is None:
            return
        drafter.advance(token_ids)
        least = self.lookahead.cost.least_probability(num_seqs)
        request.spec_token_ids = list(drafter.draft(_matcher(request), min(max_tokens, MAX_DRAFT_TOKENS), least))


def _matcher(request: "Request") -> Matcher | None:
    """Returns where a request stands in its grammar; None without one."""
    structured: Any = request.structured_output_request
    return None if structured is None else Matcher(structured.grammar.ll_matcher)


def measure_step_cost(backend: "VllmBackend", clock: Clock | None = None) -> StepCost:
    """Returns what a step of one request takes on this device, from steps of one token and of a full draft.

    Args:
        backend: Without requests.
        clock: By default processor time on a CPU, for a busy machine would mislead, and the time that passes elsewhere.
    """
    from vllm.platforms import current_platform

    clock = clock or (ProcessorClock() if current_platform.is_cpu() else MonotonicClock())
    if backend.info.max_model_len < 2 * _PROBED_TOKENS:
        return StepCost(0.0, 0.0)
    prompt = (backend.tokenizer.encode("a")[0],) * _PROBED_TOKENS
    sequence = Sequence(request_id=_PROBE, prompt_token_ids=prompt, grammar=ENDLESS_GRAMMAR)
    token_ids = _run(backend, len(prompt), sequence)
    while not token_ids:  # vLLM takes no more of a prompt than its limit for a step
        token_ids = _run(backend, len(prompt))
    (request,) = backend.engine.scheduler.requests.values()
    one_s = all_s = math.inf
    until_s = clock.now_s() + _PROBE_S
    for index in range(_NUM_PROBES):
        for num_drafted in (0, MAX_DRAFT_TOKENS):
            request.spec_token_ids = [token_ids[-1]] * num_drafted
            start_s = clock.now_s()
            token_ids = _run(backend, 1 + num_drafted)
            if num_drafted:
                all_s = min(all_s, clock.now_s() - start_s)
            else:
                one_s = min(one_s, clock.now_s() - start_s)
        if index and clock.now_s() > until_s:  # the first ones warm up
            break
    backend.execute(SchedulerOutput(release=(_PROBE,)))
    row_s = max(0.0, all_s - one_s) / MAX_DRAFT_TOKENS
    return StepCost(max(0.0, one_s - row_s), row_s)


def _run(backend: "VllmBackend", num_tokens: int, *new: Sequence) -> tuple[int, ...]:
    """Returns what the probed request writes in its next step; nothing as long as its prompt is not computed.

    Raises:
        PlannerError: ENGINE_FAILED if vLLM refuses it.
    """
    output = backend.execute(SchedulerOutput(new=new, num_scheduled_tokens={_PROBE: num_tokens}))
    if _PROBE in output.failed:
        raise PlannerError(ErrorCode.ENGINE_FAILED, f"the engine cannot be measured: {output.failed[_PROBE]}")
    return output.token_ids.get(_PROBE, ())
