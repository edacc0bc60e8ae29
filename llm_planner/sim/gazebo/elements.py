# SPDX-License-Identifier: Apache-2.0
"""XML that URDF and SDF have in common."""

import math
from collections.abc import Iterable, Mapping
from xml.etree import ElementTree as ET

from llm_planner.robots.shape import ChainBody, Point, Shape
from llm_planner.sim.gazebo.inertia import Inertia

Element = ET.Element
FLANGE_M, FINGER_M, TIP_RADIUS_M, STEM_RADIUS_M = 0.06, 0.05, 0.008, 0.025
STEM_KG, TIP_KG = 0.4, 0.05


def child(parent: Element, tag: str, text: object = None, **attributes: str) -> Element:
    """Appends an element; returns it."""
    element = ET.SubElement(parent, tag, attributes)
    if text is not None:
        element.text = text if isinstance(text, str) else numbers([float(text)])  # type: ignore[arg-type]
    return element


def children(parent: Element, texts: Mapping[str, object]) -> None:
    """Appends an element with a text for each item."""
    for tag, text in texts.items():
        child(parent, tag, text)


def numbers(values: Iterable[float]) -> str:
    """Returns numbers as XML has them: as short as possible, none in scientific notation that a reader might refuse."""
    return " ".join(f"{value + 0.0:.9f}".rstrip("0").rstrip(".") for value in values)


def radians(rpy_deg: Point) -> tuple[float, float, float]:
    """Returns three angles in radians."""
    return math.radians(rpy_deg[0]), math.radians(rpy_deg[1]), math.radians(rpy_deg[2])


def moments(inertia: Inertia) -> dict[str, str]:
    """Returns the six numbers of an inertia tensor by their names."""
    places = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
    return {name: f"{float(inertia.tensor[place]):.9g}" for name, place in places.items()}


def text_of(root: Element) -> str:
    """Returns a document."""
    ET.indent(root)
    return f'<?xml version="1.0"?>\n{ET.tostring(root, encoding="unicode")}\n'


def gripper_shapes(body: ChainBody) -> tuple[Shape, Shape]:
    """Returns the stem of an arm's gripper, and the tip that touches, in the frame of its last link."""
    length_m = body.tool.length_m.value
    stem_m = max(0.01, length_m - FLANGE_M - FINGER_M)
    stem = Shape(kind="cylinder", size_m=(STEM_RADIUS_M, stem_m), at_m=(0.0, 0.0, FLANGE_M + stem_m / 2))
    tip = Shape(kind="cylinder", size_m=(TIP_RADIUS_M, FINGER_M), at_m=(0.0, 0.0, length_m - FINGER_M / 2))
    return stem, tip
