# SPDX-License-Identifier: Apache-2.0
"""The training loop of a predictor or a baseline: bfloat16 with float32 masters, and a checkpoint to go on from."""

import hashlib
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from llm_planner_lab.training.length.data import Batch, Example, collate, shuffled
from llm_planner_lab.training.length.network import LengthNetwork, Start, start_body
from llm_planner_lab.training.length.objectives import Objective
from llm_planner_lab.training.master_weights import MasterWeights

_BATCH_SIZE = 16
_WARM_UP_STEPS = 30
_SAVE_EVERY = 100
_OBSERVE_EVERY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a network is trained.

    Attributes:
        start: Where its decoder comes from.
        head_input_tokens: Beginning of a compressed prompt.
        steps: How many; repeatable to the bit on one machine.
        seconds: Wall-clock budget instead, if it is more than 0.
        learning_rate: Peak.
        seed: Of weights and order.
        dtype: What the network computes in; its masters are float32.
    """

    start: Start
    head_input_tokens: int = 16
    steps: int = 1500
    seconds: float = 0.0
    learning_rate: float = 1e-3
    seed: int = 0
    dtype: torch.dtype = torch.bfloat16


@dataclass(frozen=True, slots=True)
class Report:
    """What the loop tells its observer from time to time; ``progress`` is the share of the run that is over."""

    step: int
    progress: float
    loss: float


class LengthTrainer:
    """Trains one network; an interrupted run goes on.

    Args:
        recipe: How.
        objective: What the head says.
        examples: To learn from.
        checkpoint: File that the state of the run is kept in. One of another run is begun again.
    """

    def __init__(self, recipe: Recipe, objective: Objective, examples: Sequence[Example], checkpoint: Path) -> None:
        self._recipe, self._objective, self._checkpoint = recipe, objective, checkpoint
        torch.manual_seed(recipe.seed)
        self.network = LengthNetwork(start_body(recipe.start), len(objective.first_bias))
        self.network.say_first(objective.first_bias)
        self._weights = MasterWeights(self.network, recipe.dtype)
        self._optimizer = torch.optim.AdamW(
            self._weights.masters, lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.05, fused=True
        )
        self.step = 0
        self._elapsed_s = 0.0
        self._run_id = hashlib.sha256(repr((recipe, objective, examples)).encode()).hexdigest()
        self._resume()
        self._groups = islice(shuffled(examples, _BATCH_SIZE, recipe.seed), self.step, None)
        self._losses: deque[float] = deque(maxlen=100)

    @property
    def progress(self) -> float:
        """Share of the run that is over, 0 to 1."""
        recipe = self._recipe
        return min(1.0, self._elapsed_s / recipe.seconds if recipe.seconds else self.step / recipe.steps)

    def run(self, observe: Callable[[Report], None]) -> LengthNetwork:
        """Trains until the budget is used up; returns the network."""
        while self.progress < 1.0:
            started_s = time.monotonic()
            self._losses.append(self._learn(self._collate(next(self._groups))))
            self.step += 1
            self._elapsed_s += time.monotonic() - started_s
            if self.step % _OBSERVE_EVERY == 0 or self.progress == 1.0:
                observe(Report(self.step, self.progress, sum(self._losses) / len(self._losses)))
            if self.step % _SAVE_EVERY == 0:
                self._save()
        self._save()
        return self.network

    def _collate(self, examples: Sequence[Example]) -> Batch:
        return collate(examples, self._recipe.start.max_input_tokens, self._recipe.head_input_tokens)

    def _learn(self, batch: Batch) -> float:
        for group in self._optimizer.param_groups:
            group["lr"] = self._learning_rate()
        loss = self._objective.loss(self.network(batch.token_ids, batch.lengths), batch.num_tokens)
        loss.backward()
        self._weights.take_gradients()
        torch.nn.utils.clip_grad_norm_(self._weights.masters, 1.0)
        self._optimizer.step()
        self._weights.publish()
        return loss.item()

    def _learning_rate(self) -> float:
        warm = min(1.0, (self.step + 1) / _WARM_UP_STEPS)
        return self._recipe.learning_rate * warm * (0.5 + 0.5 * math.cos(math.pi * self.progress)) + 1e-6

    def _save(self) -> None:
        state: dict[str, Any] = {
            "run_id": self._run_id,
            "masters": self._weights.masters,
            "optimizer": self._optimizer.state_dict(),
            "step": self.step,
            "elapsed_s": self._elapsed_s,
        }
        self._checkpoint.parent.mkdir(parents=True, exist_ok=True)
        partial = self._checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self._checkpoint)

    def _resume(self) -> None:
        if not self._checkpoint.is_file():
            return
        state = torch.load(self._checkpoint, weights_only=True)
        if state["run_id"] == self._run_id:
            self._weights.load(state["masters"])
            self._optimizer.load_state_dict(state["optimizer"])
            self.step, self._elapsed_s = state["step"], state["elapsed_s"]
