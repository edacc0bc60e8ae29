"""The tokenizer of the bundled model: a word is the same token wherever it stands, digits come one by one.

A small model learns to copy a name only if the name is written with the same tokens in the prompt and in the plan.
So nothing is glued to a word: spaces, underscores and brackets are tokens of their own, ``red box`` and ``red_box``
differ in one token, and a statement of a plan always ends with the token ``);`` or ``}``.
"""

import random
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from llm_planner.tasks.frames import corpus
from llm_planner.tasks.sample import Difficulty, sample
from llm_planner.tasks.spoken import Speaker
from llm_planner.training.prompts import task_prompt

_PIECES = r"[A-Za-z]+|[0-9]|'\);|\);|\)\{|\('|, |\. |==|!=|->|[\s\S]"
_SPECIAL = ("<pad>", "<s>", "</s>")


def train_tokenizer(rng: random.Random, *, vocab_size: int = 3072, num_tasks: int = 12_000) -> PreTrainedTokenizerFast:
    """Returns a byte-level BPE tokenizer trained on generated tasks."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
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
        min_frequency=4,
    )
    tokenizer.train_from_iterator(_texts(rng, num_tasks), trainer)
    pad, bos, eos = _SPECIAL
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=bos, eos_token=eos, pad_token=pad)


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, directory: Path) -> None:
    """Writes tokenizer.json and tokenizer_config.json."""
    tokenizer.save_pretrained(directory)


def _texts(rng: random.Random, num_tasks: int) -> list[str]:
    difficulty = Difficulty(max_objects=40, invented=0.25)
    texts = []
    speaker = Speaker.of(corpus()) if corpus() else None
    for number in range(num_tasks):
        task = speaker.sample(rng, difficulty) if speaker and number % 3 else sample(rng, difficulty)
        texts.append(task_prompt(task) + task.plan)
    return texts
