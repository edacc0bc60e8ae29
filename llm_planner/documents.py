# SPDX-License-Identifier: Apache-2.0
"""What files say: YAML and JSON within bounds, whatever their source.

A YAML file of 341 bytes can stand for gigabytes, because an alias repeats what its anchor holds, and aliases of aliases
multiply. So a document is measured with every alias written out before anything is made of it.
"""

import difflib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

T = TypeVar("T")

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
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise DocumentError(f"cannot be read as YAML: {place}{error.problem or error.context}") from error
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


def validated(adapter: TypeAdapter[T], document: object) -> T:
    """Returns what a document stands for.

    Raises:
        DocumentError: With the place of every key that is unknown, missing or wrong, and what to write instead.
    """
    try:
        return adapter.validate_json(json_of(document))
    except ValidationError as error:
        if not isinstance(document, dict):
            raise DocumentError(f"holds {type(document).__name__} instead of a mapping") from error
        schema = adapter.json_schema()
        raise DocumentError(f"is wrong: {'; '.join(_in_words(each, schema) for each in error.errors())}") from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns the question that names what is spelled most alike; nothing if all is spelled otherwise."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else ""


def _in_words(error: "ErrorDetails", schema: dict[str, Any]) -> str:
    """Returns which value of a document of this JSON schema is wrong, and what to write instead."""
    location, value = error["loc"], error["input"]
    match error["type"]:
        case "missing" | "missing_argument":
            words = "it is missing"
        case "unexpected_keyword_argument" | "extra_forbidden":
            known = list(_place(schema, location[:-1])["properties"])
            words = f"there is no such key; {did_you_mean(str(location[-1]), known) or 'known are ' + ', '.join(known)}"
        case "dataclass_type":
            keys = list(_place(schema, location)["properties"])
            is_parameter = keys == ["value", "source"] and isinstance(value, int | float)
            words = (
                f"write {{value: {value}, source: measured}}" if is_parameter else f"give it keys: {', '.join(keys)}"
            )
        case "dict_type" | "union_tag_not_found" if "discriminator" in (place := _place(schema, location)):
            words = f"write {{kind: ...}} and its other keys; kinds are {', '.join(place['discriminator']['mapping'])}"
        case "union_tag_invalid":
            words = f"there is no kind {error['ctx']['tag']!r}; known are {error['ctx']['expected_tags']}"
        case "tuple_type":
            words = f"give a list: [{value}]"
        case _:
            words = error["msg"].removeprefix("Value error, ")
    return f"{'.'.join(map(str, location))}: {words}".removeprefix(": ")


def _place(schema: dict[str, Any], location: tuple[int | str, ...]) -> dict[str, Any]:
    """Returns what a JSON schema says of a place in a document."""
    place = _resolved(schema, schema)
    for part in location:
        if "discriminator" in place:
            place = {"$ref": place["discriminator"]["mapping"][part]}
        elif "properties" in place:
            place = place["properties"][part]
        elif "prefixItems" in place:
            place = place["prefixItems"][part]
        else:
            place = place.get("items") or place["additionalProperties"]
        place = _resolved(schema, place)
    return place


def _resolved(schema: dict[str, Any], place: dict[str, Any]) -> dict[str, Any]:
    place = next((each for each in place.get("anyOf", ()) if each != {"type": "null"}), place)
    found: dict[str, Any] = schema["$defs"][place["$ref"].rpartition("/")[2]] if "$ref" in place else place
    return found


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
