# SPDX-License-Identifier: Apache-2.0
"""Batches: random repeated strings that teach copying, and tasks whose difficulty grows with the run."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from llm_planner_lab.tasks.inventory import MAX_CALLS, THINGS_SEEN, sample_inventories
from llm_planner_lab.tasks.replanned import Replanned, sample_replanned
from llm_planner_lab.tasks.sample import Difficulty, Task, sample
from llm_planner_lab.tasks.spoken import Speaker
from llm_planner_lab.training.prompts import as_shown, task_prompt, written_plan

_FIRST_TOKEN = 3  # after <pad> <s> </s>
_FIRST_POOL, _POOL = 96, 960  # tasks that are drawn together and sorted by length: few at first, so that a run begins
MAX_LENGTH = 2600
_INDUCTION_LENGTH = 64
_SHORT_OBJECTS = 24  # scenes of most tasks end here: long ones cost most tokens and teach few
_LONG_SHARE = 0.15  # of the tasks may have longer ones
_CROWDED_OBJECTS = 40
_CROWDED_SHARE = 0.3  # of the tasks have at least this many: of those that may, few have
_LISTS_SHARE = 0.15  # of the tasks are of families whose plans follow a list, or need all of it
_LISTS = ("stack", "clean_desk", "sort_food", "find_tool")
_SHOWN_SHARE = 0.75  # of the scenes are cut down to what a planner shows of them; the rest teaches to tell names apart
_REPLANNED_SHARE = 0.06  # of the tasks fail on the way
_SPOKEN_SHARE = 0.8  # of the tasks are sentences of the corpus
_FEWEST_THINGS = 40  # of an inventory
_FEWEST_CALLS = 4
_MANY_FROM, _ALL_FROM = 0.5, 0.4  # of a run of inventories: long scenes alone, and the longest too
_QUESTIONS = 16  # about one of them, at most
PROMPT_WEIGHT = 0.1  # of the loss of a token of the instruction, which teaches words


@dataclass(frozen=True, slots=True)
class Batch:
    """Token ids and, in the same shape, whether a token is a target.

    Attributes:
        token_ids: (num_seqs, length), padded with 0.
        is_target: (num_seqs, length); True where the loss counts the token.
        is_said: (num_seqs, length); True where the token belongs to an instruction.
        kind: ``induction`` or ``tasks``.
        scene_ids: (1, scene_length): tokens that every sequence goes on from, computed once; None for nothing.
    """

    token_ids: Tensor
    is_target: Tensor
    is_said: Tensor
    kind: str
    scene_ids: Tensor | None = None

    @property
    def num_tokens(self) -> int:
        """Tokens that are computed, padding included."""
        return self.token_ids.numel() + (0 if self.scene_ids is None else self.scene_ids.numel())


def difficulty_at(progress: float, max_objects: int = 200) -> Difficulty:
    """Returns the difficulty when a share ``progress`` of the run is over; scenes grow to ``max_objects``."""
    return Difficulty(
        max_clauses=1 + int(min(3.0, progress * 10)),
        max_objects=round(8 * (max_objects / 8) ** min(1.0, progress / 0.55)),
    )


def induction_share(induction_loss: float) -> float:
    """Returns the share of batches that are random repeated strings: most until the model copies, then few."""
    return min(0.6, max(0.06, 0.15 * (induction_loss - 1.0)))


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence: its tokens, where the prompt ends, and where the instruction in it begins."""

    token_ids: list[int]
    num_prompt_tokens: int
    said_from: int


def encode_task(tokenizer: PreTrainedTokenizerFast, task: Task) -> Row:
    """Returns the token ids of prompt and plan with the end token."""
    before, mark, said = task_prompt(task).partition("\ntask:")
    scene = tokenizer.encode(before + mark, add_special_tokens=False)
    prompt = [*scene, *tokenizer.encode(said, add_special_tokens=False)]
    plan = tokenizer.encode(written_plan(task.plan, task), add_special_tokens=False)
    return Row([*prompt, *plan, tokenizer.eos_token_id], len(prompt), len(scene))


def encode_replanned(tokenizer: PreTrainedTokenizerFast, replanned: Replanned) -> Row:
    """Returns the same of a plan that failed: all that was read and written before the last plan is its prompt.

    What is written and what is inserted are apart, token by token, as they are in service.
    """
    pieces = [
        task_prompt(replanned.task),
        *(piece for wrote, read in replanned.turns for piece in (written_plan(wrote, replanned.task), read)),
    ]
    prompt = [token for piece in pieces for token in tokenizer.encode(piece, add_special_tokens=False)]
    plan = tokenizer.encode(written_plan(replanned.plan, replanned.task), add_special_tokens=False)
    return Row([*prompt, *plan, tokenizer.eos_token_id], len(prompt), len(prompt))


class BatchStream:
    """Endless batches; the same seed and the same calls give the same batches.

    Args:
        tokenizer: Of the model.
        seed: Of everything drawn here.
        tokens: Most tokens of a batch, padding included.
        seqs: Most sequences of a batch.
        max_objects: Longest scenes at the end of the run.
        max_length: Longest sequences, prompt and plan.
        speaker: Says the sentences of people; without one, all tasks are drawn from templates.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        seed: int,
        *,
        tokens: int = 3072,
        seqs: int = 32,
        max_objects: int = 200,
        max_length: int = MAX_LENGTH,
        speaker: Speaker | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._speaker = speaker
        self._rng = random.Random(seed)
        self._tokens = tokens
        self._seqs = seqs
        self._max_objects = max_objects
        self._max_length = max_length
        self._ready: list[Batch] = []
        self._pool = _FIRST_POOL
        # Random strings are made of tokens that tasks are made of: no bytes beyond ASCII.
        vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        self._tokens_used = [i for text, i in vocabulary if i >= _FIRST_TOKEN and (text.isascii() or text == "\u0120")]

    def next(self, progress: float, induction_loss: float) -> Batch:
        """Returns the next batch, given the share of the run that is over and how well the model copies by now."""
        if self._rng.random() < induction_share(induction_loss):
            return self._induction()
        while not self._ready:
            self._ready = list(self._draw(progress))
            self._rng.shuffle(self._ready)
        return self._ready.pop()

    def _induction(self) -> Batch:
        rng = self._rng
        length = rng.randint(4, 24) if rng.random() < 0.85 else rng.randint(40, 600)
        total = max(_INDUCTION_LENGTH, 2 * length)
        rows = []
        for _ in range(max(1, self._seqs * _INDUCTION_LENGTH // total)):
            text = rng.choices(self._tokens_used, k=length)
            rows.append((text * (total // length + 1))[:total])
        token_ids = torch.tensor(rows)
        is_target = torch.zeros_like(token_ids, dtype=torch.bool)
        is_target[:, length + 1 :] = True
        return Batch(token_ids, is_target, torch.zeros_like(is_target), "induction")

    def _draw(self, progress: float) -> Iterator[Batch]:
        longest = difficulty_at(progress, self._max_objects)
        short = replace(longest, max_objects=min(_SHORT_OBJECTS, longest.max_objects))
        crowded = replace(longest, min_objects=_CROWDED_OBJECTS)
        shares = (_LONG_SHARE, _CROWDED_SHARE, 1.0 - _LONG_SHARE - _CROWDED_SHARE)
        drawn = self._rng.choices((longest, crowded, short), shares, k=self._pool)
        self._pool = min(_POOL, 2 * self._pool)
        rows = [self._encode(difficulty) for difficulty in drawn]
        rows = sorted(
            (row for row in rows if len(row.token_ids) <= self._max_length), key=lambda row: len(row.token_ids)
        )
        group: list[Row] = []
        for row in rows:
            if group and ((len(group) + 1) * len(row.token_ids) > self._tokens or len(group) == self._seqs):
                yield collate(group)
                group = []
            group.append(row)
        if group:
            yield collate(group)

    def _encode(self, difficulty: Difficulty) -> Row:
        fails = self._rng.random() < _REPLANNED_SHARE
        speaker = self._speaker if self._rng.random() < _SPOKEN_SHARE else None
        if fails:
            draw = speaker.sample if speaker else None
            return encode_replanned(self._tokenizer, sample_replanned(self._rng, difficulty, draw=draw))
        if speaker:
            task = speaker.sample(self._rng, difficulty)
        else:
            family = self._rng.choice(_LISTS) if self._rng.random() < _LISTS_SHARE else None
            task = sample(self._rng, difficulty, family=family)
        return encode_task(self._tokenizer, as_shown(task) if self._rng.random() < _SHOWN_SHARE else task)


class InventoryStream(BatchStream):
    """The same of inventories only. A batch is one scene, long at the end of the run, and what is asked about it.

    The scene is nine tenths of a prompt, and nothing of it is a target. With several questions, which make together
    about as many tokens as the scene, a run sees 2.6 times the plans in the same time (scenes of 150 to 560 things,
    one thread of an AMD EPYC).
    """

    def _draw(self, progress: float) -> Iterator[Batch]:
        rng = self._rng
        fewest = THINGS_SEEN[0] if progress > _MANY_FROM else _FEWEST_THINGS
        at_first, at_last = 2 * _FEWEST_THINGS, self._max_objects
        most = round(at_first * (at_last / at_first) ** min(1.0, progress / _ALL_FROM))
        num_things = _log_uniform(rng, fewest, most)
        num_calls = _log_uniform(rng, _FEWEST_CALLS, min(MAX_CALLS, num_things // 3))
        rows = [
            encode_task(self._tokenizer, task) for task in sample_inventories(rng, num_things, num_calls, _QUESTIONS)
        ]
        scene_length = rows[0].said_from
        longest = max(len(row.token_ids) for row in rows)
        if longest <= self._max_length:
            yield collate_one_scene(rows[: max(1, scene_length // (longest - scene_length))])


def _log_uniform(rng: random.Random, fewest: int, most: int) -> int:
    return round(math.exp(rng.uniform(math.log(fewest), math.log(most))))


def collate_one_scene(rows: list[Row]) -> Batch:
    """Returns a batch of rows that begin with the same scene, which it has once."""
    length = rows[0].said_from
    rest = [Row(row.token_ids[length:], row.num_prompt_tokens - length, 0) for row in rows]
    return replace(collate(rest), scene_ids=torch.tensor([rows[0].token_ids[:length]]))


def collate(rows: list[Row]) -> Batch:
    """Returns a padded batch of rows; the plan is the target."""
    length = 8 * math.ceil(max(len(row.token_ids) for row in rows) / 8)
    token_ids = torch.tensor([row.token_ids + [0] * (length - len(row.token_ids)) for row in rows])
    is_target = torch.zeros_like(token_ids, dtype=torch.bool)
    is_said = torch.zeros_like(is_target)
    for index, row in enumerate(rows):
        is_target[index, row.num_prompt_tokens : len(row.token_ids)] = True
        is_said[index, row.said_from + 1 : row.num_prompt_tokens] = True
    return Batch(token_ids, is_target, is_said, "tasks")
