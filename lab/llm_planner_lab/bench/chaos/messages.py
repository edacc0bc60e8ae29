# SPDX-License-Identifier: Apache-2.0
"""Drops, delays, duplicates and reorders messages where a node's callbacks receive them.

The hook is in rclpy, between the middleware and the callbacks of ``llm_planner``: subscriptions (status, reports,
heartbeats), an action's feedback and results, answers of services. It does what a network does to a program; what a
network does to DDS itself is not tested by it.
"""

import functools
import json
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rclpy.action.client import ActionClient
from rclpy.node import Node
from rclpy.task import Future

from llm_planner.ros.bridge import Bridge
from llm_planner.srv import GetSegments
from llm_planner_lab.bench.chaos.journal import DIRECTORY, Journal
from llm_planner_lab.bench.chaos.patching import put, take

FILE = "messages.json"
LOOK_S = 0.05
TOPICS = ("/status", "/report", "/heartbeat")
LONGEST_HOLD_S = 0.3  # of a message that the next one shall overtake


@dataclass(frozen=True, slots=True, kw_only=True)
class Disorder:
    """Shares of messages to which something happens, and until when (CLOCK_MONOTONIC)."""

    until_s: float = 0.0
    drop: float = 0.15
    delay: float = 0.15
    duplicate: float = 0.15
    reorder: float = 0.15
    most_delay_s: float = 0.8

    def write(self, directory: Path) -> None:
        """Tells all processes of a campaign."""
        temporary = directory / f"{FILE}.new"
        temporary.write_text(json.dumps(asdict(self)), encoding="utf-8")
        temporary.replace(directory / FILE)


class Mangler:
    """Decides what happens to each message; reads what the campaign says at most twenty times a second.

    Args:
        node: The node with these callbacks; late ones are made in its executor.
        journal: Gets a line for everything that happens to a message.
        seed: Of the decisions.
    """

    def __init__(self, node: Node, journal: Journal, seed: str) -> None:
        self._bridge, self._journal, self._rng = Bridge(node), journal, random.Random(seed)
        self._path = Path(os.environ[DIRECTORY]) / FILE
        self._looked_s, self._disorder = float("-inf"), Disorder()

    def deliver(self, what: str, call: Callable[[], None], held: list[Callable[[], None]]) -> None:
        """Makes a call now, later, twice, behind the next one, or never.

        Args:
            what: Is delivered, for the journal.
            call: Of the product's callback.
            held: Of the same subscription: what the next message shall overtake.
        """
        how = self._draw()
        if how:
            self._journal.note("mangled", how=how, what=what)
        if how == "delay":
            self._later(self._rng.uniform(0.05, self._disorder.most_delay_s), call)
        elif how == "reorder":
            held.append(call)
            self._later(LONGEST_HOLD_S, lambda: _release(held))
        elif how != "drop":
            call()
            if how == "duplicate":
                call()
            _release(held)

    def _later(self, delay_s: float, call: Callable[[], None]) -> None:
        timer = threading.Timer(delay_s, self._bridge.post, (call,))
        timer.daemon = True
        timer.start()

    def _draw(self) -> str:
        now_s = time.monotonic()
        if now_s - self._looked_s > LOOK_S:
            self._looked_s = now_s
            if self._path.exists():
                self._disorder = Disorder(**json.loads(self._path.read_text(encoding="utf-8")))
        if now_s > self._disorder.until_s:
            return ""
        given = self._disorder
        names = ("drop", "delay", "duplicate", "reorder", "")
        shares = (given.drop, given.delay, given.duplicate, given.reorder)
        return self._rng.choices(names, (*shares, max(0.0, 1.0 - sum(shares))))[0]


def _release(held: list[Callable[[], None]]) -> None:
    while held:
        held.pop(0)()


def install(journal: Journal, seed: str) -> None:
    """Puts the hook into this process; call it before any node is made."""
    manglers: dict[Node, Mangler] = {}

    def mangler(node: Node) -> Mangler:
        if node not in manglers:
            manglers[node] = Mangler(node, journal, f"{seed} {os.getpid()}")
        return manglers[node]

    _hook_subscriptions(mangler)
    _hook_actions(mangler)
    _hook_answers(mangler)


def _hook_subscriptions(mangler: Callable[[Node], Mangler]) -> None:
    create = take(Node, "create_subscription")

    def create_subscription(node: Node, kind: Any, topic: str, callback: Any, *rest: Any, **options: Any) -> Any:
        if topic.endswith(TOPICS):
            held: list[Callable[[], None]] = []

            def mangled(message: object) -> None:
                mangler(node).deliver(topic, lambda: callback(message), held)

            return create(node, kind, topic, mangled, *rest, **options)
        return create(node, kind, topic, callback, *rest, **options)

    put(Node, "create_subscription", create_subscription)


def _hook_actions(mangler: Callable[[Node], Mangler]) -> None:
    send, result = take(ActionClient, "send_goal_async"), take(ActionClient, "_get_result_async")

    def send_goal_async(
        client: ActionClient,
        goal: object,
        feedback_callback: Callable[..., None] | None = None,
        goal_uuid: object = None,
    ) -> Any:
        held: list[Callable[[], None]] = []

        def mangled(message: object) -> None:
            assert feedback_callback is not None
            mangler(client._node).deliver("feedback", functools.partial(feedback_callback, message), held)  # noqa: SLF001

        return send(client, goal, mangled if feedback_callback else None, goal_uuid)

    def get_result_async(client: ActionClient, handle: object) -> Future:
        return _mangled_future(mangler(client._node), "result", result(client, handle))  # noqa: SLF001

    put(ActionClient, "send_goal_async", send_goal_async)
    put(ActionClient, "_get_result_async", get_result_async)


def _hook_answers(mangler: Callable[[Node], Mangler]) -> None:
    create = take(Node, "create_client")

    def create_client(node: Node, kind: Any, *rest: Any, **options: Any) -> Any:
        client = create(node, kind, *rest, **options)
        if kind is GetSegments:
            call = client.call_async
            client.call_async = lambda request: _mangled_future(mangler(node), "get_segments", call(request))
        return client

    put(Node, "create_client", create_client)


def _mangled_future(mangler: Mangler, what: str, future: Future) -> Future:
    """Returns a future that gets the same answer: at once, late, or never."""
    seen = Future()

    def pass_on() -> None:
        if not seen.done():
            seen.set_result(future.result())

    def on_done(_: Future) -> None:
        if future.cancelled():
            seen.cancel()
        else:
            mangler.deliver(what, pass_on, [])

    future.add_done_callback(on_done)
    return seen
