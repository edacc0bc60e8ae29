# SPDX-License-Identifier: Apache-2.0
"""The training loop: AdamW, warm-up and cosine, bfloat16, checkpoints from which a run goes on."""

import copy
import math
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from llm_planner_lab.tasks.frames import HELD_OUT_AUTHORS, Frame, corpus, of_authors
from llm_planner_lab.tasks.inventory import sample_inventory
from llm_planner_lab.tasks.sample import Difficulty, Task, sample
from llm_planner_lab.tasks.spoken import Speaker, literal
from llm_planner_lab.training.copying import lay_induction_circuit
from llm_planner_lab.training.data import PROMPT_WEIGHT, Batch, BatchStream, InventoryStream, collate, encode_task
from llm_planner_lab.training.master_weights import MasterWeights
from llm_planner_lab.training.network import add_dropout, hidden_states, load_network, planner_config, save_network
from llm_planner_lab.training.tokenizer import save_tokenizer, train_tokenizer

_LONGEST_INVENTORY = 3600
_UNKNOWN_LOSS = 5.0  # before the first batch of a kind
_MEASURED_SENTENCES = 40  # of each author, before a trained model goes on
_LEAST_WEIGHT = 0.1  # of a sentence by an author whose plans the model knows


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """How to train.

    Attributes:
        output: Directory of the finished model; also keeps the checkpoint while the run lasts.
        seconds: Wall-clock budget; what remains of it after a resume is used up.
        max_steps: Stop after this many steps, for a run that is the same everywhere; 0 for no limit.
        start_from: A finished model to continue with new data (warm start); None to start from nothing.
        first_progress: Where in the curriculum a warm start begins, 0 to 1.
        learning_rate: Peak.
        workers: Processes of one thread each, each with batches of its own, that average their gradients after every
            step. On a machine that others use too they lose less time to each other than threads do, which meet
            after every operation.
        dtype: What the network computes in; its masters are float32.
        dropout: Share of the embeddings and of each block's outputs that a step leaves out, 0 to 1.
        seed: Of weights and data.
        network: Shape of the network; a warm start keeps the old one.
        max_objects: Longest scenes at the end of the run.
        is_inventory: Train on inventories only (``tasks.inventory``), for what needs long prompts and long plans.
        vocab_tasks: How many tasks the tokenizer is trained on.
        held_out_tasks: How many tasks the exact match is measured on, from time to time.
        held_out_authors: Of the corpus: whose sentences are never trained.
    """

    output: Path
    seconds: float = 3600.0
    max_steps: int = 0
    start_from: Path | None = None
    first_progress: float = 0.0
    learning_rate: float = 1e-3
    warm_up_steps: int = 200
    workers: int = 2
    dtype: torch.dtype = torch.bfloat16
    dropout: float = 0.0
    seed: int = 0
    network: LlamaConfig = field(default_factory=planner_config)
    max_objects: int = 200
    is_inventory: bool = False
    vocab_tasks: int = 6_000
    held_out_tasks: int = 200
    held_out_authors: tuple[str, ...] = HELD_OUT_AUTHORS


@dataclass(slots=True)
class Report:
    """What the loop tells its observer from time to time."""

    step: int
    progress: float
    elapsed_s: float
    num_tokens: int
    task_loss: float
    induction_loss: float
    exact_match: float | None = None
    spoken_match: float | None = None


class Trainer:
    """One run."""

    def __init__(self, options: TrainOptions, rank: int = 0) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(options.seed)
        self.options = options
        self.rank = rank
        self.checkpoint = options.output / "checkpoint.pt"
        self._corpus = () if options.is_inventory else corpus()
        self.trained_frames = of_authors(self._corpus, options.held_out_authors, is_in=False)
        self.tokenizer, self.network = self._start()
        add_dropout(self.network, options.dropout)
        self.network.eval()
        self.weights = MasterWeights(self.network, options.dtype)
        self.optimizer = torch.optim.AdamW(
            self.weights.masters, lr=options.learning_rate, betas=(0.9, 0.98), weight_decay=0.05, fused=True
        )
        self.step = 0
        self.elapsed_s = 0.0
        self._stepped_s = time.monotonic()
        self.num_tokens = 0
        self._losses: dict[str, deque[float]] = {"tasks": deque(maxlen=50), "induction": deque(maxlen=50)}
        if self.checkpoint.exists():
            self._resume()
        seed = options.seed + 7919 * self.step + 104729 * rank + 1
        speaker = Speaker.of(self.trained_frames, self.frame_weights()) if self.trained_frames else None
        self.stream = (
            InventoryStream(self.tokenizer, seed, max_objects=options.max_objects, max_length=_LONGEST_INVENTORY)
            if options.is_inventory
            else BatchStream(self.tokenizer, seed, max_objects=options.max_objects, speaker=speaker)
        )
        self.held_out = self._held_out_batches()
        self.held_out_spoken = self._spoken_batches()

    @property
    def progress(self) -> float:
        """Share of the run that is over, 0 to 1, on the curriculum's scale."""
        options = self.options
        done = self.step / options.max_steps if options.max_steps else self.elapsed_s / options.seconds
        return min(1.0, options.first_progress + (1.0 - options.first_progress) * done)

    @property
    def is_over(self) -> bool:
        """True when the budget is used up."""
        options = self.options
        return self.step >= options.max_steps if options.max_steps else self.elapsed_s >= options.seconds

    def run(self, observe: Callable[[Report], None], *, every_steps: int = 100, exact_every: int = 1000) -> None:
        """Trains until the budget is used up, then writes the model."""
        self._stepped_s = time.monotonic()
        while not self.is_over:
            batch = self.stream.next(self.progress, self._mean_loss("induction"))
            loss = self._learn(batch)
            self.step += 1
            self.num_tokens += batch.num_tokens * self.options.workers
            self._losses[batch.kind].append(loss)
            if self.rank > 0:
                continue
            if self.step % every_steps == 0:
                exact = self.exact_match() if self.step % exact_every == 0 else None
                observe(self._report(exact))
            if self.step % exact_every == 0:
                self.save()
        if self.rank == 0:
            self.save()
            observe(self._report(self.exact_match()))

    def exact_match(self) -> float:
        """Returns the share of held-out tasks whose greedy plan is the reference, by teacher forcing."""
        return self._match(self.held_out)

    def _match(self, batches: list[Batch]) -> float:
        right = total = 0
        with torch.no_grad():
            for batch in batches:
                hidden = hidden_states(self.network, batch.token_ids[:, :-1])
                hit = self.network.lm_head(hidden).argmax(-1) == batch.token_ids[:, 1:]
                right += int((hit | ~batch.is_target[:, 1:]).all(-1).sum())
                total += batch.token_ids.shape[0]
        return right / max(1, total)

    def frame_weights(self) -> list[float] | None:
        """Returns how often each trained sentence is drawn: as improbable as plans of its author are to the model.

        What the model knows by heart teaches it little. Measured with a few sentences of each author, of which each
        worker takes its share. Warnings are drawn as often as sentences of the least known author, because there are
        few and a robot must not miss one, and so are sentences that depend on their scene: half of those of unseen
        authors are not understood. None for a model that has learned nothing.
        """
        options = self.options
        if self.step == 0 and options.start_from is None:
            return None
        rng = random.Random(options.seed)
        by_author: dict[str, list[Frame]] = {}
        for frame in self.trained_frames:
            by_author.setdefault(frame.author, []).append(frame)
        unsure = torch.zeros(len(by_author))
        for index, frames in list(enumerate(by_author.values()))[self.rank :: options.workers]:
            some = rng.sample(frames, min(_MEASURED_SENTENCES, len(frames)))
            batches = self._batches([literal(rng, frame, has_scene=rng.random() < 0.5) for frame in some])
            unsure[index] = 1.0 - torch.cat([*map(self._plan_probabilities, batches)]).mean()
        if options.workers > 1:
            dist.all_reduce(unsure)
        weights = dict(zip(by_author, unsure.clamp(min=_LEAST_WEIGHT).tolist(), strict=True))
        most = max(weights.values())
        return [most if frame.is_danger or frame.scene else weights[frame.author] for frame in self.trained_frames]

    @torch.no_grad()
    def _plan_probabilities(self, batch: Batch) -> Tensor:
        """Returns how probable each plan of a batch is to the model."""
        is_target = batch.is_target[:, 1:]
        losses = self._token_losses(batch, is_target)
        return torch.exp(-torch.zeros(is_target.shape).masked_scatter(is_target, losses).sum(-1))

    def spoken_match(self) -> float:
        """Returns the same of sentences of authors that training never sees."""
        return self._match(self.held_out_spoken)

    def save(self) -> None:
        """Writes the model, the tokenizer and the checkpoint, each in one go."""
        save_network(self.network, self.options.output)
        save_tokenizer(self.tokenizer, self.options.output)
        state: dict[str, Any] = {
            "masters": self.weights.masters,
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "elapsed_s": self.elapsed_s,
            "num_tokens": self.num_tokens,
        }
        partial = self.checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.checkpoint)

    def _start(self) -> tuple[PreTrainedTokenizerFast, LlamaForCausalLM]:
        options = self.options
        source = options.output if self.checkpoint.exists() else options.start_from
        if source is not None:
            return PreTrainedTokenizerFast.from_pretrained(source), load_network(source)
        options.output.mkdir(parents=True, exist_ok=True)
        tokenizer = train_tokenizer(
            random.Random(options.seed),
            self.trained_frames,
            vocab_size=options.network.vocab_size,
            num_tasks=options.vocab_tasks,
        )
        shape = copy.copy(options.network)
        shape.vocab_size = 8 * math.ceil(len(tokenizer) / 8)
        network = LlamaForCausalLM(shape)
        lay_induction_circuit(network)
        return tokenizer, network

    def _resume(self) -> None:
        state = torch.load(self.checkpoint, weights_only=True)
        self.weights.load(state["masters"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.elapsed_s, self.num_tokens = state["step"], state["elapsed_s"], state["num_tokens"]

    def _learn(self, batch: Batch) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = self._learning_rate()
        counts = (batch.is_target | batch.is_said)[:, 1:]
        self.network.train()
        losses = self._token_losses(batch, counts)
        self.network.eval()
        is_plan = batch.is_target[:, 1:][counts]
        loss = losses[is_plan].mean()
        total = loss + PROMPT_WEIGHT * losses[~is_plan].mean() if not bool(is_plan.all()) else loss
        total.backward()
        self.weights.take_gradients()
        self._average()
        torch.nn.utils.clip_grad_norm_(self.weights.masters, 1.0)
        self.optimizer.step()
        self.weights.publish()
        return loss.item()

    def _token_losses(self, batch: Batch, counts: Tensor) -> Tensor:
        """Returns the losses of the tokens that count, one after the other; ``counts`` has no first token."""
        logits = self.network.lm_head(hidden_states(self.network, batch.token_ids[:, :-1], batch.scene_ids)[counts])
        return functional.cross_entropy(logits.float(), batch.token_ids[:, 1:][counts], reduction="none")

    def _average(self) -> None:
        """Averages gradients and the time since the last step over all workers, so that they stay the same."""
        now_s = time.monotonic()
        took_s, self._stepped_s = now_s - self._stepped_s, now_s
        if self.options.workers > 1:
            gradients = [master.grad for master in self.weights.masters if master.grad is not None]
            flat = torch.cat([*(gradient.flatten() for gradient in gradients), torch.tensor([took_s])])
            dist.all_reduce(flat)
            flat /= self.options.workers
            for gradient, mean in zip(gradients, flat[:-1].split([g.numel() for g in gradients]), strict=True):
                gradient.copy_(mean.view_as(gradient))
            took_s = float(flat[-1])
        self.elapsed_s += took_s

    def _learning_rate(self) -> float:
        options = self.options
        warm = min(1.0, (self.step + 1) / options.warm_up_steps)
        return options.learning_rate * warm * (0.5 + 0.5 * math.cos(math.pi * self.progress)) + 2e-5

    def _report(self, exact: float | None) -> Report:
        losses = self._mean_loss("tasks"), self._mean_loss("induction")
        spoken = None if exact is None else self.spoken_match()
        return Report(self.step, self.progress, self.elapsed_s, self.num_tokens, *losses, exact, spoken)

    def _mean_loss(self, kind: str) -> float:
        losses = self._losses[kind]
        return sum(losses) / len(losses) if losses else _UNKNOWN_LOSS

    def _held_out_batches(self) -> list[Batch]:
        rng = random.Random(self.options.seed + 424242)
        if self.options.is_inventory:
            return self._batches(
                [sample_inventory(rng, 200, 20, held_out=True) for _ in range(self.options.held_out_tasks)]
            )
        hard = Difficulty(max_clauses=2, max_objects=20)
        return self._batches([sample(rng, hard, held_out=True) for _ in range(self.options.held_out_tasks)])

    def _spoken_batches(self) -> list[Batch]:
        rng = random.Random(self.options.seed + 424242)
        unseen = of_authors(self._corpus, self.options.held_out_authors)
        return self._batches([literal(rng, frame, has_scene=rng.random() < 0.5) for frame in unseen])

    def _batches(self, tasks: list[Task]) -> list[Batch]:
        rows = sorted((encode_task(self.tokenizer, task) for task in tasks), key=lambda row: len(row.token_ids))
        return [collate(rows[start : start + 20]) for start in range(0, len(rows), 20)]
