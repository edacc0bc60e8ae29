# SPDX-License-Identifier: Apache-2.0
"""Examples, a prompt's tokens and the length of its response, and batches of them."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from llm_planner.checkpoints import build_prompt_encoder
from llm_planner.prediction.prompt_compression import compress_prompt
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.training.length.prompts import Prompt

_POOL = 64  # batches that are sorted by length together


@dataclass(frozen=True, slots=True)
class Example:
    """What the target model did with one prompt.

    Attributes:
        token_ids: The whole prompt.
        num_tokens: Length of the response, >= 1.
    """

    token_ids: tuple[int, ...]
    num_tokens: int


def encode_examples(
    model: Path, library: RobotLibrary, prompts: Sequence[Prompt], lengths: Mapping[Prompt, int]
) -> list[Example]:
    """Returns an example for each prompt that has a length, in the tokens of ``model``."""
    encoder = build_prompt_encoder(model)
    examples = []
    for prompt in prompts:
        if prompt in lengths:
            encoded = encoder.encode(library.get(prompt.robot), prompt.instruction, prompt.scene)
            examples.append(Example((*encoded.static_ids, *encoded.dynamic_ids), lengths[prompt]))
    return examples


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs and answers.

    Attributes:
        token_ids: (batch, length), padded at the end.
        lengths: (batch,), tokens of each row.
        num_tokens: (batch,), lengths of the responses.
    """

    token_ids: Tensor
    lengths: Tensor
    num_tokens: Tensor


def collate(examples: Sequence[Example], max_input_tokens: int, head_tokens: int) -> Batch:
    """Returns a padded batch of compressed prompts."""
    rows = [list(compress_prompt(e.token_ids, max_input_tokens, head_tokens)) for e in examples]
    longest = max(map(len, rows))
    return Batch(
        torch.tensor([row + [0] * (longest - len(row)) for row in rows]),
        torch.tensor([len(row) for row in rows]),
        torch.tensor([e.num_tokens for e in examples]),
    )


def shuffled(examples: Sequence[Example], batch_size: int, seed: int) -> Iterator[list[Example]]:
    """Yields groups of similar input length without end; the same seed gives the same groups."""
    rng = random.Random(seed)
    while True:
        order = rng.sample(examples, len(examples))
        for start in range(0, len(order), batch_size * _POOL):
            pool = sorted(order[start : start + batch_size * _POOL], key=lambda e: len(e.token_ids))
            groups = [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
            rng.shuffle(groups)
            yield from groups
