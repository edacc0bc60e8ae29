# SPDX-License-Identifier: Apache-2.0
"""Builders with defaulted arguments: worlds, robots in them, segments."""

import random

from llm_planner.core.segment import ZERO_DURATION, BlockEdge, Segment
from llm_planner.language.parser import parse
from llm_planner.robots.interpreter import run_plan
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.world import ObjectRole, World, WorldObject
from llm_planner.sim.kinematics import KinematicDriver

LIBRARY = RobotLibrary()
HOME_DEG = (0.0, 0.0, -90.0, 0.0, -90.0, 0.0)  # joints of an Indy7 as its URDF begins: the tool points down


def room(*extra):
    """A cat behind the drone to the left, scissors to the left, a chair in front."""
    return World(
        [
            WorldObject(name="cat_1", kind="cat", position_m=(-2.0, 1.0, 0.3), size_m=(0.4, 0.2, 0.3)),
            WorldObject(name="scissors", tags=("tool for cutting paper",), position_m=(0.0, 3.0, 1.0)),
            WorldObject(name="chair", position_m=(3.0, 0.0, 1.0), size_m=(0.5, 0.5, 1.0)),
            *extra,
        ],
        answers={"colour chair": "blue", "how many chairs": 1.0},
    )


def table(*extra):
    """Two boxes, a bin and an area on a table."""
    return World(
        [
            WorldObject(name="table", role=ObjectRole.AREA, position_m=(0.45, 0.0, 0.0), size_m=(0.6, 1.0, 0.0)),
            WorldObject(name="left_area", role=ObjectRole.AREA, position_m=(0.4, 0.3, 0.0), size_m=(0.2, 0.2, 0.0)),
            WorldObject(
                name="bin",
                role=ObjectRole.CONTAINER,
                is_fixed=True,
                position_m=(0.4, -0.4, 0.05),
                size_m=(0.2, 0.2, 0.1),
            ),
            WorldObject(name="red_box", position_m=(0.5, 0.0, 0.025)),
            WorldObject(name="blue_box", position_m=(0.5, 0.1, 0.025)),
            *extra,
        ]
    )


def drone(world=None, seed=0, **options):
    return KinematicDriver(LIBRARY.get("tello"), world or room(), random.Random(seed), **options)


def arm(world=None, seed=0, **options):
    return KinematicDriver(LIBRARY.get("indy7"), world or table(), random.Random(seed), **options)


def run(text, driver):
    return run_plan(parse(text), driver)


def segment(index=0, text="mf(100);", edge=None):
    """Returns a segment; its edge is what its text looks like unless one is given."""
    if edge is None:
        edge = BlockEdge.OPENS if text.endswith("{") else BlockEdge.CLOSES if text == "}" else BlockEdge.NONE
    return Segment(index=index, text=text, calls=(), expected=ZERO_DURATION, block_edge=edge)
