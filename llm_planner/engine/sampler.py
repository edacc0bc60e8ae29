# SPDX-License-Identifier: Apache-2.0
"""Chooses the token that follows a row of logits: greedy or nucleus sampling, under the grammar of its sequence."""

import math
import random
from collections.abc import Sequence
from typing import Any

import torch

from llm_planner.core.step import SamplingParams, TokenChoice
from llm_planner.engine.grammar import Matcher, mask_words, unpack_mask
from llm_planner.engine.hardware import upload
from llm_planner.engine.kernels import load_kernels
from llm_planner.engine.sequence_state import SequenceState

CLEAR_LOGPROB = math.log(0.9)
"""A choice that is likelier needs no alternatives."""
NUM_ALTERNATIVES = 3


class SamplingError(ValueError):
    """A row from which nothing can be chosen."""


class Sampler:
    """Chooses tokens from rows of logits (num_rows, vocab_size); each row once.

    A row's token depends on that row and its sequence alone: random numbers come from the sequence's own generator.
    """

    def __init__(self, logits: torch.Tensor) -> None:
        self._logits = logits
        kernels = load_kernels(logits.device, logits.dtype)
        ranked = _rank(logits) if kernels is None else kernels.rank(logits)
        self._peaks, self._argmaxes, self._totals = _read(*ranked)

    def choose(self, rows: Sequence[int], states: Sequence[SequenceState]) -> list[TokenChoice | SamplingError]:
        """Returns the token of each row for its sequence, or why there is none; moves the grammars on."""
        chosen: list[TokenChoice | SamplingError | None]
        chosen = [self._choose_unmasked(row, state) for row, state in zip(rows, states, strict=True)]
        if pending := [place for place, choice in enumerate(chosen) if choice is None]:
            masked = self._choose_masked([rows[place] for place in pending], [states[place] for place in pending])
            for place, masked_choice in zip(pending, masked, strict=True):
                chosen[place] = masked_choice
        unclear = [p for p, c in enumerate(chosen) if isinstance(c, TokenChoice) and c.logprob <= CLEAR_LOGPROB]
        if unclear:
            likeliest = self._likeliest([rows[place] for place in unclear])
            for place, ranked in zip(unclear, likeliest, strict=True):
                choice = chosen[place]
                assert isinstance(choice, TokenChoice)
                others = [other for other in ranked if other.token_id != choice.token_id][:NUM_ALTERNATIVES]
                chosen[place] = choice._replace(alternatives=_judged(others, choice.token_id, states[place].matcher))
        return [choice for choice in chosen if choice is not None]

    def _likeliest(self, rows: Sequence[int]) -> list[list[TokenChoice]]:
        """Returns the likeliest tokens of rows, the likeliest first."""
        logits, token_ids = _read(*self._select(rows).topk(min(1 + NUM_ALTERNATIVES, self._logits.shape[-1])))
        return [
            [TokenChoice(int(token), self._logprob(row, logit)) for token, logit in zip(*of_row, strict=True)]
            for row, *of_row in zip(rows, token_ids, logits, strict=True)
        ]

    def _select(self, rows: Sequence[int]) -> torch.Tensor:
        """Returns the logits of rows (len(rows), vocab_size)."""
        if len(rows) == len(self._logits) and [*rows] == [*range(len(rows))]:
            return self._logits
        return self._logits.index_select(0, upload(self._logits.device, rows)[0])

    def _logprob(self, row: int, logit: float) -> float:
        return min(0.0, logit - self._totals[row])

    def _choose_unmasked(self, row: int, state: SequenceState) -> TokenChoice | SamplingError | None:
        """Returns the choice where it needs no mask, which is slow: a forced token, or a greedy one that is allowed.

        Where nothing is forced, the mask holds all that the grammar accepts, so the choice is that of the mask.
        """
        if not math.isfinite(self._peaks[row]):
            return SamplingError("the model's output is not finite; try another dtype")
        forced = state.take_forced()
        if forced is not None:
            return TokenChoice(forced)
        argmax = int(self._argmaxes[row])
        if state.sampling.temperature == 0 and (state.matcher is None or state.matcher.try_accept(argmax)):
            return TokenChoice(argmax, self._logprob(row, self._peaks[row]))
        return None

    def _choose_masked(self, rows: Sequence[int], states: Sequence[SequenceState]) -> list[TokenChoice | SamplingError]:
        masked = _masked(self._select(rows), [state.matcher for state in states])
        is_greedy = [state.sampling.temperature == 0 for state in states]
        peaks, argmaxes = _read(*masked.max(dim=-1)) if any(is_greedy) else ([], [])
        on_host = masked if all(is_greedy) else masked.to("cpu")
        choices: list[TokenChoice | SamplingError] = []
        for index, (row, state) in enumerate(zip(rows, states, strict=True)):
            if is_greedy[index]:
                token, logit = (int(argmaxes[index]), peaks[index]) if math.isfinite(peaks[index]) else (None, 0.0)
            else:
                token = _draw(on_host[index], state.sampling, state.rng)
                logit = 0.0 if token is None else float(on_host[index, token])
            if token is None or (state.matcher is not None and not state.matcher.try_accept(token)):
                choices.append(SamplingError("the grammar allows no token here"))
            else:
                choices.append(TokenChoice(token, self._logprob(row, logit)))
        return choices


def _judged(others: Sequence[TokenChoice], chosen: int, matcher: Matcher | None) -> tuple[TokenChoice, ...]:
    """Returns alternatives with the word of the grammar on them, which has accepted the token that was chosen."""
    if matcher is None:
        return tuple(others)
    allowed = matcher.would_have_allowed([other.token_id for other in others], instead_of=chosen)
    return tuple(other._replace(is_allowed=each) for other, each in zip(others, allowed, strict=True))


def _rank(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As ``Kernels.rank``."""
    return *logits.max(dim=-1), logits.float().logsumexp(dim=-1)


def _read(*parts: torch.Tensor) -> list[list[Any]]:
    """Returns the numbers of tensors, nested as these are."""
    return [part.tolist() for part in (parts if parts[0].device.type == "cpu" else copied(parts))]


def copied(parts: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns tensors on the host, in one copy: each one waits for the device.

    As doubles, which hold floating-point numbers and token ids alike.
    """
    joined = torch.cat([part.double().flatten() for part in parts]).cpu()
    split = joined.split([part.numel() for part in parts])
    return [numbers.view(part.shape) for numbers, part in zip(split, parts, strict=True)]


def _masked(logits: torch.Tensor, matchers: Sequence[Matcher | None]) -> torch.Tensor:
    if all(matcher is None for matcher in matchers):
        return logits
    vocab_size = logits.shape[-1]
    shape = (len(matchers), mask_words(vocab_size))
    words = torch.full(shape, -1, dtype=torch.int32, pin_memory=logits.device.type == "cuda")
    for row, matcher in enumerate(matchers):
        if matcher is not None:
            matcher.fill_mask(words[row])
    return logits.masked_fill(~unpack_mask(words.to(logits.device, non_blocking=True), vocab_size), -math.inf)


def _draw(logits: torch.Tensor, sampling: SamplingParams, rng: random.Random) -> int | None:
    """Returns a token of the smallest set whose probability reaches ``top_p`` (arXiv 1904.09751), None if all are out.

    One uniform number per token, inverted on the sorted distribution in double precision.
    """
    scaled = logits.double() / sampling.temperature
    ranked, token_ids = scaled.softmax(dim=-1).sort(descending=True, stable=True)
    cumulative = ranked.cumsum(dim=-1)
    if not math.isfinite(float(cumulative[-1])):
        return None
    size = int((cumulative - ranked < sampling.top_p).sum())
    target = rng.random() * float(cumulative[size - 1])
    rank = int(torch.searchsorted(cumulative[:size], target, right=True))
    return int(token_ids[min(rank, size - 1)])
