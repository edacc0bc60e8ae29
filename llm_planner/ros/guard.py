# SPDX-License-Identifier: Apache-2.0
"""Callbacks that an unexpected exception does not end the process through."""

import functools
import traceback
import weakref
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from rclpy.node import Node

Guard = Callable[[Callable[..., Any]], Callable[..., Any]]
"""``guarded`` for the callbacks of one node, which are handled alike."""
P = ParamSpec("P")
R = TypeVar("R")
_logged: weakref.WeakKeyDictionary[Node, set[str]] = weakref.WeakKeyDictionary()  # places in the code, by node


def guarded(node: Node, callback: Callable[P, R], on_error: Callable[..., R]) -> Callable[P, R]:
    """Returns a callback for rclpy that raises nothing: rclpy passes an exception on to the thread that spins the node.

    Args:
        node: That logs, once per node and place in the code where an exception was raised.
        callback: Of a timer, a subscription, a service or a future.
        on_error: Called first of all, with the exception and the callback's arguments; its value is returned. What it
            raises itself is logged too, and None is returned.
    """
    places = _logged.setdefault(node, set())

    def log(error: Exception) -> None:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} {last.filename}:{last.lineno}"
        if place not in places:
            places.add(place)
            trace = "".join(traceback.format_exception(error))
            node.get_logger().error(f"{getattr(callback, '__qualname__', callback)} failed: {error!r}\n{trace}")

    @functools.wraps(callback)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return callback(*arguments, **options)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the node goes on
            try:
                return on_error(error, *arguments, **options)
            except Exception as second:  # noqa: BLE001
                log(second)
                return None  # type: ignore[return-value] # on_error must not raise
            finally:
                log(error)

    return call
