# SPDX-License-Identifier: Apache-2.0
"""The tokenizer of the bundled model: a word is the same token wherever it stands, digits come one by one.

A small model learns to copy a name only if the name is written with the same tokens in the prompt and in the plan.
So nothing is glued to a word: underscores and brackets are tokens of their own, spaces between words have none, which
makes prompts a third shorter, and a statement of a plan always ends with the token ``);`` or ``}``.
"""

import random
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from llm_planner_lab.tasks.frames import Frame
from llm_planner_lab.tasks.sample import Difficulty, sample
from llm_planner_lab.tasks.spoken import literal
from llm_planner_lab.training.prompts import task_prompt, written_plan

_PIECES = r"[A-Za-z]+|[0-9]|'\);|\);|\)\{|\('|, |\. |==|!=|->|[\s\S]"
_SPACES = r"(?<![0-9]) +| +(?![0-9])"  # all but those between two numbers
_REPEATS = 3  # of each sentence: its words count more than invented ones
_SPECIAL = ("<pad>", "<s>", "</s>")


def train_tokenizer(
    rng: random.Random, frames: Sequence[Frame] = (), *, vocab_size: int = 4096, num_tasks: int = 6_000
) -> PreTrainedTokenizerFast:
    """Returns a byte-level BPE tokenizer trained on the sentences of a corpus and on generated tasks."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPACES), "removed"),
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        special_tokens=list(_SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=6,
    )
    tokenizer.train_from_iterator(_texts(rng, frames, num_tasks), trainer)
    pad, bos, eos = _SPECIAL
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=bos, eos_token=eos, pad_token=pad)


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, directory: Path) -> None:
    """Writes tokenizer.json and tokenizer_config.json."""
    tokenizer.save_pretrained(directory)


def _texts(rng: random.Random, frames: Sequence[Frame], num_tasks: int) -> list[str]:
    difficulty = Difficulty(max_objects=40, invented=0.1)
    tasks = [literal(rng, frame, has_scene=False) for frame in frames for _ in range(_REPEATS)]
    tasks += [sample(rng, difficulty) for _ in range(num_tasks)]
    return [task_prompt(task) + written_plan(task.plan, task) for task in tasks]
