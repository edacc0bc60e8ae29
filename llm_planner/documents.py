# SPDX-License-Identifier: Apache-2.0
"""What files say: YAML and JSON within bounds, whatever their source.

A YAML file of 341 bytes can stand for gigabytes, because an alias repeats what its anchor holds, and aliases of aliases
multiply. So a document is measured with every alias written out before anything is made of it.
"""

import json
from pathlib import Path
from typing import Any

import yaml

MAX_FILE_BYTES = 1_000_000
MAX_NODES = 300_000  # of a YAML document: each takes about a kilobyte before anything is made of it
MAX_WRITTEN_OUT = 8_000_000  # characters and nodes of a YAML document in which every alias is written out
MAX_NUMBER_LENGTH = 100  # YAML takes 1:2:3 for a number to the base 60: longer ones cost time and mean nothing
_NUMBERS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp"))
_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """YAML's safe loader; gives up on a document of too many nodes while it is read."""

    num_nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.num_nodes += 1
        if self.num_nodes > MAX_NODES:
            raise ValueError(f"it has more than {MAX_NODES} nodes")
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


class DocumentError(Exception):
    """A file cannot be read, or is not what it should be; the message says why, without the name of the file."""


def read_text(path: Path, max_bytes: int = MAX_FILE_BYTES) -> str:
    """Returns the text of a file in UTF-8.

    Raises:
        DocumentError: If it cannot be read, is longer than ``max_bytes``, or is no such text.
    """
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        raise DocumentError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > max_bytes:
        raise DocumentError(f"is larger than {max_bytes} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError(f"is no text in UTF-8: {error}") from error


def read_yaml(path: Path, max_bytes: int = MAX_FILE_BYTES) -> Any:
    """Returns what a YAML file says.

    Raises:
        DocumentError: As ``read_text`` and ``parse_yaml``.
    """
    return parse_yaml(read_text(path, max_bytes))


def parse_yaml(text: str) -> Any:
    """Returns what a YAML text says; None if it says nothing.

    Raises:
        DocumentError: If it is no YAML, gives a key twice, or is too large once its aliases are written out.
    """
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _written_out(node, {})
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, OverflowError, LookupError, AttributeError, TypeError) as error:
        raise DocumentError(f"cannot be read as YAML: {error}") from error
    except RecursionError as error:
        raise DocumentError("cannot be read as YAML: it is nested too deeply") from error


def json_of(document: object) -> str:
    """Returns a YAML document as JSON, in which pydantic's strict mode takes lists for tuples and texts for enums.

    Raises:
        DocumentError: If it has keys that are neither texts nor numbers.
    """
    try:
        return json.dumps(document, default=str)
    except TypeError as error:
        raise DocumentError(f"holds what JSON cannot: {error}") from error


def read_json(path: Path, max_bytes: int = MAX_FILE_BYTES) -> Any:
    """Returns what a JSON file says; numbers are finite.

    Raises:
        DocumentError: As ``read_text``, or if it is no JSON.
    """
    return parse_json(read_text(path, max_bytes))


def parse_json(text: str | bytes) -> Any:
    """Returns what a JSON text says; numbers are finite.

    Raises:
        DocumentError: If it is no JSON.
    """
    try:
        return json.loads(text, parse_constant=_not_finite)
    except ValueError as error:
        raise DocumentError(f"cannot be read as JSON: {error}") from error
    except RecursionError as error:
        raise DocumentError("cannot be read as JSON: it is nested too deeply") from error


def _not_finite(name: str) -> float:
    raise ValueError(f"{name} is not a finite number")


def _written_out(node: yaml.Node, sizes: dict[int, int | None]) -> int:
    """Returns how many characters and nodes a node holds, with every alias written out.

    Args:
        node: As composed: an alias is the node of its anchor.
        sizes: By identity, of the nodes that were seen; None while a node is being measured.
    """
    known = sizes.get(id(node), 0)
    if known is None:
        raise ValueError("an alias is part of what its anchor holds")
    if known:
        return known
    sizes[id(node)] = None
    size = 1
    if isinstance(node, yaml.ScalarNode):
        size += len(node.value)
        if node.tag in _NUMBERS and len(node.value) > MAX_NUMBER_LENGTH:
            raise ValueError(f"the number {node.value[:20]}... has {len(node.value)} characters")
    elif isinstance(node, yaml.SequenceNode):
        size += sum(_written_out(inner, sizes) for inner in node.value)
    elif isinstance(node, yaml.MappingNode):
        _require_different_keys(node)
        size += sum(_written_out(inner, sizes) for pair in node.value for inner in pair)
    if size > MAX_WRITTEN_OUT:
        raise ValueError(f"its aliases written out, it is larger than {MAX_WRITTEN_OUT} characters")
    sizes[id(node)] = size
    return size


def _require_different_keys(node: yaml.MappingNode) -> None:
    """Raises where a key is given twice: otherwise the last one would win in silence."""
    seen: set[tuple[str, str]] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
            continue
        if (key.tag, key.value) in seen:
            raise yaml.constructor.ConstructorError(None, None, f"key {key.value!r} appears twice", key.start_mark)
        seen.add((key.tag, key.value))
