# SPDX-License-Identifier: Apache-2.0
"""Chooses the token that follows a row of logits: greedy or nucleus sampling, under the grammar of its sequence."""

import math
import random
from collections.abc import Sequence

import torch

from llm_planner.core.step import SamplingParams, TokenChoice
from llm_planner.engine.grammar import Matcher, mask_words, unpack_mask
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
        peaks, argmaxes = logits.max(dim=-1)
        self._peaks, self._argmaxes = peaks.tolist(), argmaxes.tolist()
        self._totals = logits.float().logsumexp(dim=-1).tolist()

    def choose(self, rows: Sequence[int], states: Sequence[SequenceState]) -> list[TokenChoice | SamplingError]:
        """Returns the token of each row for its sequence, or why there is none; moves the grammars on."""
        chosen = [self._choose_unmasked(row, state) for row, state in zip(rows, states, strict=True)]
        pending = [place for place, token in enumerate(chosen) if token is None]
        if pending:
            logits = self._logits[[rows[place] for place in pending]]
            masked = _masked(logits, [states[place].matcher for place in pending])
            for place, row_logits in zip(pending, masked, strict=True):
                chosen[place] = self._told(rows[place], _choose_masked(row_logits, states[place]))
        return [token for token in chosen if token is not None]

    def _told(self, row: int, token: int | SamplingError) -> TokenChoice | SamplingError:
        """Returns a token with its probability, and with others if it is not clear."""
        if isinstance(token, SamplingError):
            return token
        chosen = TokenChoice(token, self._logprob(row, float(self._logits[row, token])))
        if chosen.logprob > CLEAR_LOGPROB:
            return chosen
        logits, token_ids = self._logits[row].topk(min(1 + NUM_ALTERNATIVES, self._logits.shape[-1]))
        likeliest = zip(token_ids.tolist(), logits.tolist(), strict=True)
        others = [TokenChoice(other, self._logprob(row, logit)) for other, logit in likeliest if other != token]
        return chosen._replace(alternatives=tuple(others[:NUM_ALTERNATIVES]))

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
        argmax: int = self._argmaxes[row]
        if state.sampling.temperature == 0 and (state.matcher is None or state.matcher.try_accept(argmax)):
            return self._told(row, argmax)
        return None


def _masked(logits: torch.Tensor, matchers: Sequence[Matcher | None]) -> torch.Tensor:
    if all(matcher is None for matcher in matchers):
        return logits
    vocab_size = logits.shape[-1]
    words = torch.full((len(matchers), mask_words(vocab_size)), -1, dtype=torch.int32)
    for row, matcher in enumerate(matchers):
        if matcher is not None:
            matcher.fill_mask(words[row])
    return logits.masked_fill(~unpack_mask(words.to(logits.device), vocab_size), -math.inf)


def _choose_masked(logits: torch.Tensor, state: SequenceState) -> int | SamplingError:
    if state.sampling.temperature == 0:
        peak, argmax = logits.max(dim=-1)
        token = int(argmax) if math.isfinite(float(peak)) else None
    else:
        token = _draw(logits, state.sampling, state.rng)
    if token is None or (state.matcher is not None and not state.matcher.try_accept(token)):
        return SamplingError("the grammar allows no token here")
    return token


def _draw(logits: torch.Tensor, sampling: SamplingParams, rng: random.Random) -> int | None:
    """Returns a token of the smallest set whose probability reaches ``top_p`` (arXiv 1904.09751), None if all are out.

    One uniform number per token, inverted on the sorted distribution in double precision.
    """
    scaled = logits.to("cpu", torch.float64) / sampling.temperature
    ranked, token_ids = scaled.softmax(dim=-1).sort(descending=True, stable=True)
    cumulative = ranked.cumsum(dim=-1)
    if not math.isfinite(float(cumulative[-1])):
        return None
    size = int((cumulative - ranked < sampling.top_p).sum())
    target = rng.random() * float(cumulative[size - 1])
    rank = int(torch.searchsorted(cumulative[:size], target, right=True))
    return int(token_ids[min(rank, size - 1)])
