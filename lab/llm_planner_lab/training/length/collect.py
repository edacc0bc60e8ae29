# SPDX-License-Identifier: Apache-2.0
"""Asks the target model: how long are its responses really? Measured through serving, kept in a file."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from llm_planner.assembly import build_loop
from llm_planner.core.config import EngineConfig, PlannerConfig, SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanRequest
from llm_planner.engine.fingerprint import weights_fingerprint
from llm_planner.planning.repetition import MAX_REPEATED_STEPS, MAX_REPETITION, MAX_REPETITION_SPOKEN
from llm_planner_lab.simulation.serving import serve_all
from llm_planner_lab.training.length.prompts import Prompt

_AT_ONCE = 128  # prompts between two writes
_BATCH = 32


class LengthFile:
    """Measured lengths of one model: a line that says how they were measured, then one line for each prompt.

    Lengths of another model, or under other limits, are of no use: such a file is begun again.

    Args:
        path: The file; it need not exist.
        model: Checkpoint directory of the target model.
        max_tokens: Longest response that was allowed.

    Raises:
        PlannerError: INVALID_FILE if the file is damaged.
    """

    def __init__(self, path: Path, model: Path, max_tokens: int) -> None:
        self._path = path
        self._header = {
            "fingerprint": weights_fingerprint(model),
            "max_tokens": max_tokens,
            "max_repetition": MAX_REPETITION,
            "max_repeated_steps": MAX_REPEATED_STEPS,
            "max_repetition_spoken": MAX_REPETITION_SPOKEN,
        }
        self.lengths: dict[Prompt, int] = {}
        lines = path.read_text(encoding="utf-8").split("\n") if path.is_file() else []
        if lines and self._read(lines[0], 1) == self._header:
            # What stands behind the last line end was cut off while it was written.
            for number, line in enumerate(lines[1:-1], start=2):
                values = self._read(line, number)
                self.lengths[Prompt(**values["prompt"])] = values["tokens"]
        self._begin()

    def add(self, lengths: dict[Prompt, int]) -> None:
        """Keeps more lengths."""
        self.lengths |= lengths
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(_records(lengths))

    def _read(self, line: str, number: int) -> Any:
        try:
            return json.loads(line)
        except ValueError as error:
            message = f"{self._path}, line {number}: {error}; delete the file to measure again"
            raise PlannerError(ErrorCode.INVALID_FILE, message) from error

    def _begin(self) -> None:
        """Writes the file as far as it is known, in one go."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        partial.write_text("".join([json.dumps(self._header) + "\n", *_records(self.lengths)]), encoding="utf-8")
        partial.replace(self._path)


def _records(lengths: dict[Prompt, int]) -> list[str]:
    return [json.dumps({"prompt": asdict(prompt), "tokens": n}) + "\n" for prompt, n in lengths.items()]


def collect_lengths(
    model: Path,
    prompts: Sequence[Prompt],
    *,
    path: Path,
    max_tokens: int,
    robot_models: Sequence[Path] = (),
    threads: int = 0,
    observe: Callable[[int], None] = lambda _: None,
) -> dict[Prompt, int]:
    """Returns how many tokens the model generates for each prompt, without those that it cannot serve.

    As in service: the prompt of this model, grammar, safety gate, greedy decoding. A plan that the gate stops has the
    length at which it was stopped.

    Args:
        model: Checkpoint directory.
        prompts: What is asked.
        path: Where lengths are kept; what it holds already is not measured again.
        max_tokens: Longest response.
        robot_models: Directories with robot models besides the bundled ones.
        threads: CPU threads of the engine; 0 leaves the choice to the planner.
        observe: Told how many prompts are done, from time to time.
    """
    file = LengthFile(path, model, max_tokens)
    todo = iter([prompt for prompt in prompts if prompt not in file.lengths])
    chunk = list(islice(todo, _AT_ONCE))
    observe(len(file.lengths))
    if chunk:
        loop = build_loop(_config(model, robot_models, threads), do_clients_report=False)
        try:
            while chunk:
                requests = [_request(index, prompt, max_tokens) for index, prompt in enumerate(chunk)]
                results = serve_all(loop, requests)
                counts = (result.metrics.num_output_tokens for result in results)
                file.add(dict(zip(chunk, counts, strict=True)))
                observe(len(file.lengths))
                chunk = list(islice(todo, _AT_ONCE))
        finally:
            loop.close()
    return {prompt: count for prompt in prompts if (count := file.lengths[prompt]) > 0}


def _config(model: Path, robot_models: Sequence[Path], threads: int) -> PlannerConfig:
    return PlannerConfig(
        robot_models=tuple(map(str, robot_models)),
        engine=EngineConfig(model=str(model), num_threads=threads),
        scheduler=SchedulerConfig(policy="fcfs", max_num_seqs=_BATCH),
        length_predictor="",
    )


def _request(index: int, prompt: Prompt, max_tokens: int) -> PlanRequest:
    return PlanRequest(
        request_id=str(index),
        robot_id=str(index),
        robot_model=prompt.robot,
        instruction=prompt.instruction,
        scene=prompt.scene,
        max_tokens=max_tokens,
    )
