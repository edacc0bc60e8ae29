# SPDX-License-Identifier: Apache-2.0
"""Sentences written one by one by many authors, with their plans: files of frames, and tasks made of them.

A file is the work of one author: lines ``sentence | scene | plan`` below ``[tello]`` and ``[indy7]``
(lab/corpus/README.md). In a frame, ``<cat>`` stands for any object, ``[two metres]`` for any amount (its number stands
in the plan) and ``~words~`` for any words that are to be said. A sentence that begins with ``!`` warns of a danger.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[2] / "corpus"
ROBOTS = ("tello", "indy7")
HELD_OUT_AUTHORS = (
    "04-german-factory",
    "09-speech-to-text",
    "13-nurse-hospital",
    "23-office-worker",
    "26-spanish-mechanic",
)
"""No training draws their sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A sentence and what a robot should do.

    Attributes:
        author: Stem of the file.
        robot: Name of the robot model.
        sentence: What is said, with slots.
        scene: Names that the robot sees; empty if that does not matter.
        plan: In the notation of the files: MiniSpec with slots and ``find(x)``.
        is_danger: Whether it warns of something.
    """

    author: str
    robot: str
    sentence: str
    scene: tuple[str, ...]
    plan: str
    is_danger: bool = False


def read_frames(path: Path) -> Iterator[Frame]:
    """Yields the frames of one file.

    Raises:
        ValueError: If a line is no frame; names file and line.
    """
    robot = ""
    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if header := re.fullmatch(r"\[(\w+)\]", line):
            robot = header[1]
            continue
        parts = [part.strip() for part in line.split("|", 2)]
        if len(parts) != 3 or not robot:
            problem = "expected 'sentence | scene | plan' below a robot model in brackets, such as [tello]"
            raise ValueError(f"{path.name}:{number}: {problem}: {line}")
        sentence, scene, plan = parts
        if not plan.endswith((";", "}")):  # two plans are joined by writing one behind the other
            raise ValueError(f"{path.name}:{number}: the plan does not end with ';': {line}")
        if unsaid := set(OBJECT.findall(plan)).difference(OBJECT.findall(sentence)):
            raise ValueError(f"{path.name}:{number}: the sentence has no <{min(unsaid)}>: {line}")
        yield Frame(
            author=path.stem,
            robot=robot,
            sentence=sentence.removeprefix("!").strip(),
            scene=tuple(filter(None, (name.strip() for name in scene.split(",")))),
            plan=plan,
            is_danger=sentence.startswith("!"),
        )


@cache
def corpus(directory: Path = CORPUS) -> tuple[Frame, ...]:
    """Returns the frames of all authors, in the order of their files."""
    return tuple(frame for path in sorted(directory.glob("*.txt")) for frame in read_frames(path))


def of_authors(frames: Iterable[Frame], authors: Iterable[str], *, is_in: bool = True) -> tuple[Frame, ...]:
    """Returns the frames of these authors, or of all others."""
    wanted = frozenset(authors)
    return tuple(frame for frame in frames if (frame.author in wanted) == is_in)


OBJECT = re.compile(r"<(\w[\w '.-]*)>")
AMOUNT = re.compile(r"\[([^\[\]]+)\]")
WORDS = re.compile(r"~([^~]+)~")


def nouns(frames: Iterable[Frame], robot: str) -> tuple[str, ...]:
    """Returns the objects that authors speak of to one robot, in order of appearance."""
    return tuple(dict.fromkeys(noun for f in frames if f.robot == robot for noun in OBJECT.findall(f.sentence)))


def sayings(frames: Iterable[Frame]) -> tuple[str, ...]:
    """Returns the words that authors want to be said, in order of appearance."""
    return tuple(dict.fromkeys(words for f in frames for words in WORDS.findall(f.sentence)))
