# SPDX-License-Identifier: Apache-2.0
"""Damaged copies of good files: values that mean something else, texts that end in the midst, bytes that flip."""

import copy
import json

VALUES = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 10**400, 0.5, -0.0, 1e308, float("inf"), float("nan"),
    "", "x", "-1", "1e999", "x" * 5_000, "\ud800", "\0", [], [[]], [None], {}, {"": {}}, [[[[[[[[]]]]]]]],
)  # fmt: skip


def _places(document, path=()):
    yield path
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield from _places(value, (*path, key))


def damaged(rng, document):
    """Returns a copy of a document of lists and dictionaries in which one to three things are something else."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 2, 3))):
        *parents, last = rng.choice([path for path in _places(document) if path] or [(None,)])
        if last is None:
            return rng.choice(VALUES)
        inner = document
        for key in parents:
            inner = inner[key]
        change = rng.random()
        if change < 0.7:
            inner[last] = copy.deepcopy(rng.choice(VALUES))
        elif change < 0.85:
            del inner[last]
        elif isinstance(inner, list):
            inner.append(copy.deepcopy(rng.choice((inner[last], *VALUES))))
        else:
            inner[str(rng.choice(VALUES))[:20]] = inner[last]
    return document


def damaged_json(rng, text):
    """Returns a JSON text that is damaged as a document or as text."""
    if rng.random() < 0.25:
        return damaged_bytes(rng, text.encode()).decode("utf-8", "replace")
    try:
        return json.dumps(damaged(rng, json.loads(text)))
    except ValueError:  # more digits than Python writes
        return text.replace("1", "9" * 5_000, 1)


def damaged_bytes(rng, content):
    """Returns bytes of which some are others, missing, or there twice."""
    content = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(content) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(content):
            content[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del content[at : at + rng.choice((1, 8, 100))]
        elif kind == 2:
            content[at:at] = rng.choice((b"\0", b"\xff" * 8, b"[" * 50, b'"', b",", b"-", b"9" * 400, b"\n", b"NaN"))
        elif kind == 3:
            content[at:at] = content[at : at + 40]
        elif rng.random() < 0.2:
            del content[at:]
    return bytes(content)
