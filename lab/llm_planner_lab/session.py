# SPDX-License-Identifier: Apache-2.0
"""Recorded terminal sessions in pages: types the commands of a page into a shell, and writes down what is shown.

    python -m llm_planner_lab.session docs/in_charge.md            # says what is shown differently now
    python -m llm_planner_lab.session docs/in_charge.md --record   # writes the page again

What is typed stands behind ``$`` in fences of the kind ``console``; all else in them is recorded. A second word names
the terminal, so that a page can use several at once. The order of the page is the order of time.

- The comment ``# stays open`` leaves a command running, once it says what Ctrl-C would stop.
- The comment ``# Ctrl-C`` presses Ctrl-C then.
- The comment ``# answers 1`` types ``1`` when the command asks something.
- A fence that begins with ``...`` waits for the end of what has stayed open there; with a line that ends in ``^C`` it
  presses Ctrl-C first.

Lines that a program draws again and again, as a spinner, are shown as they are at that moment, as in a terminal.
"""

import argparse
import contextlib
import difflib
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```console(?: (\w+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
STAYS_OPEN, PRESS, WAIT = "# stays open", "^C", "..."
WAIT_PRESSED = WAIT + PRESS
READY = "Ctrl-C stops"
COLUMNS, ROWS = 100, 200
UNWRAPPED = 1000  # columns of the screen, of which programs know 100: what they leave to a terminal to wrap stays whole
AT_WORK_S = 1.5  # for what has just begun
TIMEOUT_S, CLOSE_S, POLL_S = 90.0, 20.0, 0.05
PROMPT = "$ "
_PROMPTS = (PROMPT.rstrip(), PRESS + PROMPT.rstrip())  # the second behind a program that ends without a word
_ANSWERS = re.compile(r"# answers (\S+)$")
_CTRL_C = b"\x03"


class Terminal:
    """A shell, and the screen of the terminal that it runs in.

    Args:
        environment: Of the shell.
        directory: Where it starts.
    """

    def __init__(self, environment: Mapping[str, str], directory: Path) -> None:
        self._screen = pyte.Screen(UNWRAPPED, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self._before: list[str] = []  # what was shown when a command was left running
        self._descriptor, inside = os.openpty()
        termios.tcsetwinsize(self._descriptor, (ROWS, COLUMNS))
        command = ["setsid", "--ctty", "bash", "--norc", "--noprofile"]
        self._shell = subprocess.Popen(
            command, stdin=inside, stdout=inside, stderr=inside, cwd=directory, env=dict(environment)
        )
        os.close(inside)
        self._reader = threading.Thread(target=self._read, name="terminal", daemon=True)
        self._reader.start()
        self._wait_until(lambda: self._is_at_prompt(0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends what runs, and the shell."""
        with contextlib.suppress(TimeoutError, OSError):
            self._write(_CTRL_C)
            self._wait_until(lambda: self._is_at_prompt(0), CLOSE_S)
        with contextlib.suppress(OSError):
            os.killpg(os.tcgetpgrp(self._descriptor), signal.SIGKILL)
        self._shell.kill()
        self._shell.wait()
        self._reader.join()
        os.close(self._descriptor)

    def play(self, step: str) -> list[str]:
        """Does one step of a page; returns the lines that show it.

        Args:
            step: A line that begins with the prompt; ``WAIT`` or ``WAIT_PRESSED`` for a command that has stayed open.

        Raises:
            TimeoutError: What it waits for is not shown; the message is the screen.
        """
        if step in (WAIT, WAIT_PRESSED):
            return [WAIT, *self._rest(is_pressed=step == WAIT_PRESSED)]
        with self._lock:
            self._screen.reset()
            self._stream.feed(PROMPT.encode())
        self._write(step.removeprefix(PROMPT).encode() + b"\n")
        if answer := _ANSWERS.search(step):
            self._wait_until(lambda: "\n".join(self._lines()).endswith(":"))
            self._write(answer[1].encode() + b"\n")
        if not step.endswith((STAYS_OPEN, "# Ctrl-C")):
            self._wait_until(self._has_ended)
            return self._lines()
        self._wait_until(lambda: READY in "\n".join(self._lines()[1:]))
        time.sleep(AT_WORK_S)
        self._before = shown = self._lines()
        return shown if step.endswith(STAYS_OPEN) else [*shown[:-1], shown[-1] + PRESS, *self._rest(is_pressed=True)]

    def _rest(self, *, is_pressed: bool) -> list[str]:
        """Waits for the end of a command that has stayed open; returns the lines that were not there before."""
        if is_pressed:
            self._write(_CTRL_C)
        self._wait_until(self._has_ended)
        now = self._lines()
        pairs = zip(self._before, now, strict=False)
        return now[sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)) :]

    def _write(self, keys: bytes) -> None:
        os.write(self._descriptor, keys)

    def _read(self) -> None:
        """Draws everything that the programs write: they would wait for a terminal that is not read."""
        with contextlib.suppress(OSError):  # the last program has closed it
            while data := os.read(self._descriptor, 4096):
                with self._lock:
                    self._stream.feed(data)

    def _lines(self) -> list[str]:
        """Returns what is shown, without the prompt behind it."""
        with self._lock:
            lines = [line.rstrip() for line in self._screen.display[: self._screen.cursor.y + 1]]
        if lines[-1] in _PROMPTS:
            lines[-1] = lines[-1].removesuffix(PROMPT.rstrip())
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def _is_at_prompt(self, least_row: int) -> bool:
        with self._lock:
            cursor = self._screen.cursor
            line = self._screen.display[cursor.y].rstrip()
            return line in _PROMPTS and cursor.x == len(line) + 1 and cursor.y >= least_row

    def _has_ended(self) -> bool:
        return self._is_at_prompt(1)

    def _wait_until(self, condition: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
        until_s = time.monotonic() + timeout_s  # noqa: TID251 -- of people and processes
        while not condition():
            if time.monotonic() > until_s:  # noqa: TID251
                raise TimeoutError("\n".join(self._lines()))
            time.sleep(POLL_S)


@contextlib.contextmanager
def shells(given: Mapping[str, str]) -> Iterator[Callable[[], Terminal]]:
    """Yields what opens a terminal in an empty home directory, where ``~/llm_planner`` leads to this checkout.

    Args:
        given: The environment to begin with; programs next to this interpreter are found first.
    """
    with tempfile.TemporaryDirectory(prefix="llm_planner_session_") as home, contextlib.ExitStack() as terminals:
        (Path(home) / "llm_planner").symlink_to(ROOT)
        path = f"{Path(sys.executable).parent}{os.pathsep}{given.get('PATH', os.defpath)}"
        own = {
            "HOME": home,
            "XDG_CACHE_HOME": f"{home}/.cache",
            "PATH": path,
            "PS1": PROMPT,
            "TERM": "xterm",
            "NO_COLOR": "1",
        }
        environment = {name: value for name, value in given.items() if name not in ("COLUMNS", "LINES")} | own
        yield lambda: terminals.enter_context(Terminal(environment, Path(home)))


def played(page: str, open_terminal: Callable[[], Terminal]) -> str:
    """Returns a page with what its commands show now.

    Args:
        page: Markdown.
        open_terminal: Called for each terminal that the page names.
    """
    terminals: dict[str, Terminal] = {}

    def play(fence: re.Match[str]) -> str:
        name = fence[1] or ""
        if name not in terminals:
            terminals[name] = open_terminal()
        lines = [line for step in _steps(fence[2]) for line in terminals[name].play(step)]
        return "\n".join([f"```console {name}".rstrip(), *lines, "```"])

    return FENCE.sub(play, page)


def differences(recorded: str, now: str) -> list[str]:
    """Returns where two pages differ, apart from spaces, durations, shares, spinners, and ids and times in logs."""
    before, after = ([_comparable(line) for line in page.splitlines()] for page in (recorded, now))
    return list(difflib.unified_diff(before, after, "recorded", "now", lineterm="", n=1))


def _steps(text: str) -> list[str]:
    first, *_ = lines = text.splitlines()
    waits = [WAIT_PRESSED if any(line.endswith(PRESS) for line in lines) else WAIT] if first == WAIT else []
    return [*waits, *(line for line in lines if line.startswith(PROMPT))]


def _comparable(line: str) -> str:
    line = re.sub(r"\d+(\.\d+)?(?= ?(s|ms|%)(\W|$))", "#", line)
    line = re.sub(r"\b[0-9a-f]{32}\b|(?<=\[)\d+\.\d+(?=\])", "#", line)
    return re.sub(r"\s+", " ", re.sub("[\u2800-\u28ff]", "\u28ff", line)).strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Plays a page; returns 0 if it shows what it showed, or was recorded."""
    parser = argparse.ArgumentParser(
        prog="python -m llm_planner_lab.session", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("page", type=Path, help="a page with fences of the kind console")
    parser.add_argument("--record", action="store_true", help="write the page again")
    given = parser.parse_args(arguments)
    recorded = given.page.read_text(encoding="utf-8")
    with shells(os.environ) as open_terminal:
        now = played(recorded, open_terminal)
    if given.record:
        given.page.write_text(now, encoding="utf-8")
        return 0
    found = differences(recorded, now)
    print("\n".join(found))  # noqa: T201 -- its result
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
