# SPDX-License-Identifier: Apache-2.0
"""Texts of message definitions, as a recording must hold them to be read where this project is not installed."""

import importlib
import os
import re
import sys
from pathlib import Path
from typing import Any

SEPARATOR = "=" * 80
_FIELD = re.compile(r"^\s*(?:(?P<package>[a-z]\w*)/(?:msg/)?)?(?P<name>[A-Z]\w*)(?:\[[^\]]*\])?\s+\w+", re.MULTILINE)


def message_class(message_type: str) -> Any:
    """Returns the class of a type such as ``std_msgs/msg/String``.

    Raises:
        LookupError: If it is not installed.
    """
    package, kind, name = message_type.split("/")
    try:
        return getattr(importlib.import_module(f"{package}.{kind}"), name)
    except (ImportError, AttributeError) as error:
        raise LookupError(f"{message_type} is not installed") from error


def definition(message_type: str) -> str:
    """Returns the text of a message, followed by those of all messages that it is made of.

    Raises:
        LookupError: If one of them is not installed.
    """
    texts: dict[str, str] = {}
    todo = [message_type]
    while todo:
        name = todo.pop()
        if name not in texts:
            texts[name] = _text(name)
            todo += _parts(name, texts[name])
    own = texts.pop(message_type)
    others = (f"{SEPARATOR}\nMSG: {name.replace('/msg/', '/')}\n{text}" for name, text in texts.items())
    return "\n".join((own, *others))


def _text(message_type: str) -> str:
    package, kind, name = message_type.split("/")
    prefixes = [*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix]  # ROS from wheels sets none
    paths = (Path(prefix) / "share" / package / kind / f"{name}.msg" for prefix in prefixes if prefix)
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise LookupError(f"there is no definition of {message_type}")
    return path.read_text(encoding="utf-8")


def _parts(message_type: str, text: str) -> list[str]:
    """Returns the types of the fields that are messages themselves."""
    own_package = message_type.split("/", maxsplit=1)[0]
    bare = "\n".join(line.split("#", maxsplit=1)[0] for line in text.splitlines())
    return [f"{match['package'] or own_package}/msg/{match['name']}" for match in _FIELD.finditer(bare)]
