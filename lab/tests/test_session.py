# SPDX-License-Identifier: Apache-2.0
"""Recorded terminal sessions: what is written down is what was shown; the page of docs still shows what it says."""

import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

from llm_planner.cli.emulate import FIRST_ADDRESS
from llm_planner.sim.emulator.network import COMMAND_PORT
from llm_planner_lab.session import ROOT, differences, main, played, shells

PAGE = ROOT / "docs" / "in_charge.md"
PROGRAM = """
import sys, time
sys.stdout.write("one\\ntwo; Ctrl-C stops it")
sys.stdout.flush()
try:
    time.sleep(60)
except KeyboardInterrupt:
    print("\\r\\x1b[2Kstopped")
    sys.exit(130)
"""


@pytest.fixture(scope="module")
def play(tmp_path_factory):
    """Returns what plays a page, in terminals of its own; ``program`` runs until Ctrl-C."""
    directory = tmp_path_factory.mktemp("bin")
    program = directory / "program"
    program.write_text(f"#!{sys.executable}\n{PROGRAM}")
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{directory}{os.pathsep}{os.environ['PATH']}"}

    def play(*lines):
        with shells(environment) as open_terminal:
            return played("\n".join(lines) + "\n", open_terminal)

    return play


def test_what_is_typed_is_kept_and_what_is_shown_is_written_down(play):
    page = play(
        "Text.",
        "```console",
        "$ echo $((6 * 7)); pwd | wc -l",
        "old",
        "$ false",
        "$ echo $?",
        "```",
        "```bash",
        "$ no",
        "```",
    )
    assert page.splitlines() == [
        *("Text.", "```console", "$ echo $((6 * 7)); pwd | wc -l", "42", "1", "$ false", "$ echo $?", "1", "```"),
        *("```bash", "$ no", "```"),
    ]


def test_ctrl_c_is_shown_where_it_was_pressed(play):
    shown = play("```console", "$ program  # Ctrl-C", "$ echo $?", "```").splitlines()
    assert shown[1:] == ["$ program  # Ctrl-C", "one", "two; Ctrl-C stops it^C", "stopped", "$ echo $?", "130", "```"]


def test_a_command_stays_open_next_to_others(play):
    shown = play(
        *("```console first", "$ program  # stays open", "```"),
        *("```console", "$ echo in the meantime", "```", "```console first", "...", "^C", "$ echo $?", "```"),
    )
    assert shown.splitlines() == [
        *("```console first", "$ program  # stays open", "one", "two; Ctrl-C stops it", "```"),
        *("```console", "$ echo in the meantime", "in the meantime", "```"),
        *("```console first", "...", "stopped", "$ echo $?", "130", "```"),
    ]


def test_the_end_of_what_stays_open_is_waited_for(play):
    shown = play(
        *("```console", "$ echo 'Ctrl-C stops it'; sleep 3; echo over  # stays open", "```"),
        *("```console", "...", "```"),
    )
    assert shown.splitlines()[2:] == ["Ctrl-C stops it", "```", "```console", "...", "over", "```"]


def test_durations_and_shares_may_differ_and_words_may_not():
    assert differences("ok  1.5 s  mf(100);\n66% sure", "ok  12.25 s  mf(100);\n7 % sure") != []
    assert differences("ok  1.5 s  mf(100);\n66% sure", "ok  12.25 s  mf(100);\n7% sure") == []
    assert differences("\u2819 at work (1 s)", "\u2839 at work (12 s)") == []
    for one, other in (("mf(100);", "mf(110);"), ("drone_1", "drone_2"), ("done", ""), ("status 1", "status 0")):
        assert differences(one, other) != []


def test_a_page_that_shows_something_else_now_fails_until_it_is_recorded(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo new\nold\n```\n")
    assert main([str(page)]) == 1
    assert {"-old", "+new"} <= set(capsys.readouterr().out.splitlines())
    assert main([str(page), "--record"]) == 0
    assert page.read_text() == "```console\n$ echo new\nnew\n```\n"
    assert main([str(page)]) == 0


def _is_emulator_running():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((FIRST_ADDRESS, COMMAND_PORT))
        except OSError:
            return True
    return False


@pytest.mark.ros
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_page_shows_what_the_commands_show():
    if shutil.which("llm-planner", path=Path(sys.executable).parent) is None:
        pytest.skip("llm-planner is not installed next to this interpreter")
    if _is_emulator_running():
        pytest.skip(f"another program of this machine emulates a Tello on {FIRST_ADDRESS}")
    recorded = PAGE.read_text(encoding="utf-8")
    with shells(os.environ) as open_terminal:
        now = played(recorded, open_terminal)
    assert "\n".join(differences(recorded, now)) == ""
