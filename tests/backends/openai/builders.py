# SPDX-License-Identifier: Apache-2.0
"""A server process as tests hold it, and a driver that schedules a backend as they please."""

import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from llm_planner.backends.openai.backend import OpenAIBackend
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import OpenAIConfig
from llm_planner.core.interfaces import Backend
from llm_planner.core.step import SamplingParams, SchedulerOutput, Sequence
from llm_planner.engine.tokenizer import load_tokenizer
from llm_planner.planning.grammar import lark_grammar
from llm_planner.robots.library import RobotLibrary
from llm_planner.serving.prompt_encoder import PromptEncoder

MODEL_DIR = Path(__file__).resolve().parents[3] / "models/planner-small"
TOKENIZER = load_tokenizer(MODEL_DIR)
LIBRARY = RobotLibrary()
TASKS = {
    "scan": ("tello", "look for the cat, then go to it and take a picture", "cat_2"),
    "square": ("tello", "fly a square with sides of one meter", ""),
    "stack": ("indy7", "put the red cup on the blue plate, then say done", "red_cup, blue_plate"),
    "turn": ("tello", "turn left, then fly 2 m forward and land", ""),
}
PLANS = {
    "scan": "g(cat_2);tp();",
    "square": "4{mf(100);tc(90);}",
    "stack": "pick(red_cup);place(red_cup,blue_plate);say('done');",
    "turn": "tu(90);mf(200);ld();",
}
"""What the scripted server writes: the bundled model's own plans, as ``test_backend`` sees to."""
TIMEOUT_S = 170.0


@dataclass(slots=True)
class ServerProcess:
    """A model server in a process of its own."""

    process: subprocess.Popen
    port: int

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        return f"{self.root}/v1"

    def order(self, **faults) -> None:
        httpx2.post(f"{self.root}/faults", json=faults, trust_env=False).raise_for_status()

    @property
    def stats(self) -> dict:
        return httpx2.get(f"{self.root}/stats", trust_env=False).json()

    def wait_idle(self) -> None:
        """Waits until no completion runs."""
        end_s = time.monotonic() + TIMEOUT_S
        while self.stats["active"]:
            assert time.monotonic() < end_s
            time.sleep(0.01)


def make_backend(at: ServerProcess, *, api_key=None, has_raw_prompts=True, **config) -> OpenAIBackend:
    return OpenAIBackend(
        OpenAIConfig(**{"base_url": at.base_url, **config}),
        TOKENIZER,
        api_key=api_key,
        clock=MonotonicClock(),
        has_raw_prompts=has_raw_prompts,
    )


def make_sequence(name: str, *, grammar: str | None = "", temperature: float = 0.0) -> Sequence:
    """Returns the sequence of a task; an empty grammar stands for the robot's own."""
    robot, instruction, scene = TASKS[name]
    model = LIBRARY.get(robot)
    prompt = PromptEncoder(tokenizer=TOKENIZER).encode(model, instruction, scene)
    return Sequence(
        request_id=name,
        prompt_token_ids=(*prompt.static_ids, *prompt.dynamic_ids),
        grammar=lark_grammar(model) if grammar == "" else grammar,
        sampling=SamplingParams(temperature=temperature),
    )


@dataclass
class Driver:
    """Counts as the scheduler does, and schedules the requests that a test names.

    Attributes:
        text: What each sequence has written.
    """

    backend: Backend
    text: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    num_tokens: dict[str, int] = field(default_factory=dict)
    num_computed: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, Sequence] = field(default_factory=dict)

    def add(self, sequence: Sequence) -> None:
        self.waiting[sequence.request_id] = sequence
        self.text[sequence.request_id] = ""
        self.num_tokens[sequence.request_id] = len(sequence.prompt_token_ids)
        self.num_computed[sequence.request_id] = 0

    @property
    def unfinished(self) -> list[str]:
        return [name for name in self.text if name not in self.finished and name not in self.failed]

    def step(self, *names: str) -> None:
        new = tuple(self.waiting.pop(name) for name in names if name in self.waiting)
        counts = {name: self.num_tokens[name] - self.num_computed[name] for name in names}
        scheduled = SchedulerOutput(new=new, num_scheduled_tokens=counts)
        output = self.backend.execute(scheduled)
        ran = (output.step or scheduled).num_scheduled_tokens
        told = set(output.token_ids) | set(output.finished)
        assert told <= set(ran) - set(output.failed)
        for name, num_computed in ran.items():
            ids = output.token_ids.get(name, ())
            self.num_computed[name] += num_computed - output.num_rejected_tokens.get(name, 0)
            assert self.num_computed[name] == self.num_tokens[name] - (name not in told)  # what was sent is read
            self.num_tokens[name] += len(ids)
            self.text[name] += b"".join(map(self.backend.tokenizer.token_bytes, ids)).decode()
        self.failed |= output.failed
        self.finished |= set(output.finished)

    def run(self, *names: str) -> None:
        """Runs sequences to their ends."""
        end_s = time.monotonic() + TIMEOUT_S
        while left := [name for name in names or self.text if name in self.unfinished]:
            assert time.monotonic() < end_s, self.text
            self.step(*left)
