# SPDX-License-Identifier: Apache-2.0
"""An executor that no callback of a node can end: what one raises is logged once per kind, counted, and passed over."""

import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any
from weakref import WeakKeyDictionary

from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.task import Task

Work = Callable[[], Coroutine[Any, Any, None]]

MAX_FAILURES_IN_A_ROW = 10
MAX_REASON = 300
_errors: WeakKeyDictionary[Node, Counter[str]] = WeakKeyDictionary()


def num_callback_errors(node: Node) -> int:
    """Returns how many exceptions of a node's callbacks were passed over."""
    return sum(_errors.get(node, Counter()).values())


def note_error(node: Node, error: Exception) -> None:
    """Counts an exception; logs the first of each kind (its type, and the line of code that raised it)."""
    place = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-1:]]
    kind = " in ".join((type(error).__name__, *place))
    counts = _errors.setdefault(node, Counter())
    counts[kind] += 1
    if counts[kind] == 1:
        reason = str(error)[:MAX_REASON]
        node.get_logger().error(f"a callback failed with {kind}: {reason}; further ones of this kind are only counted")


class GuardedExecutor(SingleThreadedExecutor):
    """rclpy's executor, but that nodes go on whatever a message makes their callbacks do.

    A failed callback costs the message that it was called for; a service then answers nothing. Failures outside of
    callbacks (of the middleware, of rclpy itself) are passed over too, unless nothing else happens any more: then
    they are raised, because a process that is started again serves better than one that is deaf.
    """

    def __init__(self) -> None:
        super().__init__()
        self._num_failures = 0  # in a row, outside of callbacks
        self._has_waited_in_vain = False

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """Waits for one callback, and makes it."""
        try:
            super().spin_once(timeout_sec)
        except ExternalShutdownException:
            raise
        except Exception as error:
            self._num_failures += 1
            if self._num_failures >= MAX_FAILURES_IN_A_ROW:
                raise
            for node in self.get_nodes():
                note_error(node, error)
        else:
            self._num_failures = 0

    def wait_for_ready_callbacks(self, *arguments: Any, **options: Any) -> Any:
        """Returns what is to be done next; raises as rclpy does if that is nothing."""
        self._has_waited_in_vain = True
        ready: Any = super().wait_for_ready_callbacks(*arguments, **options)
        self._has_waited_in_vain = False
        return ready

    @property
    def is_idle(self) -> bool:
        """Whether the last wait ended without anything to do, and no callback before it left something behind."""
        with self._tasks_lock:
            return self._has_waited_in_vain and all(task.done() for task, *_ in self._tasks)

    def _make_handler(self, entity: Any, node: Node, take_from_wait_list: Callable[[Any], Work | None]) -> Task:
        """Returns the task that does what an entity is ready for.

        rclpy's own task wakes the executor before and after each callback, for the other threads of an executor that
        has some. Here the only effect would be a second, empty wait, which costs as much as the callback's own.
        """
        entity._executor_event = True  # noqa: SLF001 -- rclpy's mark: not to be waited for until it is taken
        task = Task(self._handle, (entity, node, take_from_wait_list), executor=self)
        with self._tasks_lock:
            self._tasks.append((task, entity, node))
        return task

    async def _handle(self, entity: Any, node: Node, take_from_wait_list: Callable[[Any], Work | None]) -> None:
        if self._is_shutdown or not entity.callback_group.beginning_execution(entity):
            entity._executor_event = False  # noqa: SLF001
            return
        with self._work_tracker:
            work = _take(node, take_from_wait_list, entity)
            entity._executor_event = False  # noqa: SLF001
            try:
                if work is not None:
                    await _do(node, work)
            finally:
                entity.callback_group.ending_execution(entity)


def _take(node: Node, take_from_wait_list: Callable[[Any], Work | None], entity: Any) -> Work | None:
    """Returns what is to be done for an entity, guarded; None if nothing, or if it could not be taken."""
    try:
        return take_from_wait_list(entity)
    except Exception as error:  # noqa: BLE001 -- rclpy would take the entity for busy forever
        note_error(node, error)
        return None


async def _do(node: Node, work: Work) -> None:
    try:
        await work()
    except Exception as error:  # noqa: BLE001 -- whatever it is, the node goes on
        note_error(node, error)
