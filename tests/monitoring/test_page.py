# SPDX-License-Identifier: Apache-2.0
"""The page's files without a browser: its colours can be read, and its texts are put where they belong."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from llm_planner.monitoring.web import STATIC

LEAST_CONTRAST = 4.5  # WCAG 2.2, success criterion 1.4.3
PAIRS = [  # text, and what it stands on
    *((text, ground) for text in ("ink", "dim") for ground in ("bg", "card", "area")),
    *((text, ground) for text in ("warn", "bad") for ground in ("bg", "card")),
    *(
        ("on-bar", bar)
        for bar in ("dim", "good", "warn", "bad", "generation", "generation-urgent", "execution", "execution-urgent")
    ),
    ("on-bar", "reflex"),
    ("ink", "waiting"),
    ("card", "ink"),
]


def themes():
    """Returns the variables of the style sheet, in light and dark."""
    blocks = re.findall(r":root \{(.*?)\}", (STATIC / "style.css").read_text(encoding="utf-8"), re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in blocks)
    return {"light": light, "dark": light | dark}


def luminance(colour):
    """Returns the relative luminance of WCAG 2.2."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read(theme):
    colours = themes()[theme]
    found = {}
    for text, ground in PAIRS:
        lights = sorted((luminance(colours[text]), luminance(colours[ground])))
        found[text, ground] = (lights[1] + 0.05) / (lights[0] + 0.05)
    assert {pair: round(value, 2) for pair, value in found.items() if value < LEAST_CONTRAST} == {}


def test_every_colour_of_a_text_is_among_the_pairs():
    style = (STATIC / "style.css").read_text(encoding="utf-8")
    used = set(re.findall(r"(?<![\w-])color: var\(--([\w-]+)\)", style))
    assert used == {text for text, _ in PAIRS}


def test_no_text_is_faded():
    """It would have less contrast than its colours have."""
    assert not re.findall(r"(?<![\w-])(?:opacity|filter):", (STATIC / "style.css").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", sorted([*STATIC.glob("*.js"), STATIC / "style.css"]), ids=lambda path: path.name)
def test_colours_are_named_in_one_place(path: Path):
    text = re.sub(r":root \{.*?\}", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[;\"'])", text) == []


TAKE = """
const { take, store } = await import(process.argv[2]);
JSON.parse(process.argv[3]).forEach(take);
console.log(JSON.stringify([store.log, store.measured].map((list) => list.map((entry) => entry.number))));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is missing")
def test_what_comes_twice_is_kept_once(tmp_path):
    """A whole document has what came since the last news, and the next news has it too."""
    shutil.copy(STATIC / "store.js", tmp_path / "store.mjs")
    (tmp_path / "take.mjs").write_text(TAKE, encoding="utf-8")

    def document(*numbers, is_whole=False):
        entries = [{"number": number, "age_s": 0.0} for number in numbers]
        empty = {"spans": [], "robots": [], "dialogues": {}, "rates": None, "now_s": 1.0}
        return {**empty, "is_whole": is_whole, "log": entries, "measured": entries}

    documents = [document(3, 5, is_whole=True), document(5, 6), document(), document(7), document(2, is_whole=True)]
    for end, kept in ((4, [3, 5, 6, 7]), (5, [2])):
        command = ["node", tmp_path / "take.mjs", tmp_path / "store.mjs", json.dumps(documents[:end])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert json.loads(done.stdout) == [kept, kept]
