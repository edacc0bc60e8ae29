"""Callbacks that an unexpected exception does not end the process through."""

import functools
import traceback
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from rclpy.node import Node

P = ParamSpec("P")
R = TypeVar("R")


def guarded(node: Node, callback: Callable[P, R], on_error: Callable[..., R]) -> Callable[P, R]:
    """Returns a callback for rclpy that raises nothing: rclpy passes an exception on to whoever spins the node.

    Args:
        node: That logs, once per place in the code where an exception was raised.
        callback: Of a timer, a subscription, a service or a future.
        on_error: Called first of all, with the exception and the callback's arguments; its value is returned. What it
            raises itself is logged too, and None is returned.
    """
    places: set[str] = set()  # as many as there are lines of code

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
