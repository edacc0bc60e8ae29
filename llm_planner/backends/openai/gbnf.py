# SPDX-License-Identifier: Apache-2.0
"""Our grammars in GBNF, the notation of llama.cpp, which xgrammar (SGLang, vLLM) reads too."""

import re

_TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*")|/(?P<regex>(?:[^/\\]|\\.)+)/|(?P<name>[A-Za-z_]\w*)|(?P<repeat>\{\d+,\d+\})'
    r"|(?P<mark>[|()?*+])|(?P<exclusion>&\s*~\s*/(?:[^/\\]|\\.)+/)|\s+"
)
_REGEX_PART = re.compile(
    r"(?P<class>\[(?:[^\]\\]|\\.)+\])|(?P<repeat>\{\d+,\d+\})|(?P<mark>[|()?*+])|\\(?P<escaped>[^\w])|(?P<plain>[^\\])"
)


def to_gbnf(lark: str) -> str:
    """Returns a grammar of ``planning.grammar`` in GBNF.

    Deviation: what a terminal excludes (``& ~/True|False/``) is lost, as GBNF cannot say it. A name may then read
    ``True``; the safety gate knows it from a truth value.

    Raises:
        ValueError: For a notation that our grammars do not use.
    """
    rules: list[str] = []
    for line in filter(None, lark.splitlines()):
        name, _, definition = line.partition(":")
        rules.append(f"{_rule(name)} ::= {_expansion(definition)}")
    return "\n".join(rules) + "\n"


def _rule(name: str) -> str:
    """Returns a name that llama.cpp takes: letters, digits and hyphens; it begins with ``root``."""
    return "root" if name == "start" else name.lower().replace("_", "-")


def _expansion(definition: str) -> str:
    parts: list[str] = []
    for match in _matches(_TOKEN, definition):
        kind, text = match.lastgroup, match.group(match.lastgroup) if match.lastgroup else ""
        if kind == "regex":
            parts.append(f"({_regex(text)})")
        elif kind == "name":
            parts.append(_rule(text))
        elif kind in {"text", "mark", "repeat"}:
            parts.append(text)
    return _joined(parts)


def _regex(pattern: str) -> str:
    parts: list[str] = []
    for match in _matches(_REGEX_PART, pattern):
        kind, text = match.lastgroup, match.group(match.lastgroup or 0)
        parts.append(_quoted(text) if kind in {"escaped", "plain"} else text)
    return _joined(parts)


def _quoted(character: str) -> str:
    escaped = "\\" + character if character in '"\\' else character
    return f'"{escaped}"'


def _joined(parts: list[str]) -> str:
    """Returns the parts with spaces between them, but none before what repeats them."""
    text = ""
    for part in parts:
        text += part if part[0] in "?*+{" else f" {part}"
    return text.strip()


def _matches(pattern: "re.Pattern[str]", text: str) -> "list[re.Match[str]]":
    """Returns the matches that cover all of a text.

    Raises:
        ValueError: If there is something else in it.
    """
    found, end = [], 0
    while end < len(text):
        match = pattern.match(text, end)
        if match is None:
            raise ValueError(f"cannot be said in GBNF: {text[end : end + 40]!r}")
        found.append(match)
        end = match.end()
    return found
