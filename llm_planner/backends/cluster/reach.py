# SPDX-License-Identifier: Apache-2.0
"""Whether the machines of a cluster can be reached, before anything is started on them, and whether the head lives."""

import errno
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from llm_planner.backends.cluster.description import Node
from llm_planner.core.errors import ErrorCode, PlannerError

JOIN_TIMEOUT_S, POLL_S = 3.0, 0.5
PROBED_PORT = 22
"""Any port will do: a machine that refuses a connection is there."""


def check_reachable(nodes: Iterable[Node], timeout_s: float = 3.0, port: int = PROBED_PORT) -> None:
    """Returns when all machines have answered.

    Raises:
        PlannerError: SERVER_UNREACHABLE, naming every machine that does not answer, and why.
    """
    asked = list(nodes)
    with ThreadPoolExecutor(max_workers=max(1, len(asked))) as pool:
        problems = pool.map(lambda node: _problem(node.address, port, timeout_s), asked)
    silent = [f"{node.address} ({problem})" for node, problem in zip(asked, problems, strict=True) if problem]
    if silent:
        message = f"nodes that cannot be reached: {', '.join(silent)}; correct the cluster file or the network"
        raise PlannerError(ErrorCode.SERVER_UNREACHABLE, message)


def _problem(address: str, port: int, timeout_s: float) -> str | None:
    """Returns why a machine cannot be reached; None if it can."""
    try:
        socket.create_connection((address, port), timeout_s).close()
    except ConnectionRefusedError:
        return None
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except (OSError, UnicodeError) as error:  # the second of what cannot be a name
        return getattr(error, "strerror", None) or str(error)
    return None


def show_head(address: str, port: int) -> socket.socket:
    """Lets other machines see, until this process ends, that the head lives; returns what listens there.

    Raises:
        PlannerError: ADDRESS_IN_USE or INVALID_CONFIG if this machine cannot listen there.
    """
    try:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        server = socket.create_server((address, port), family=family)
    except OSError as error:
        in_use = error.errno == errno.EADDRINUSE
        code = ErrorCode.ADDRESS_IN_USE if in_use else ErrorCode.INVALID_CONFIG
        message = (
            f"cannot listen at {address}:{port}, where nodes join: {error.strerror}; change engine.nodes or its port"
        )
        raise PlannerError(code, message) from error
    threading.Thread(target=_hold, args=(server,), name="nodes", daemon=True).start()
    return server


def _hold(server: socket.socket) -> None:
    """Keeps every connection open whose other end is, as long as the process lives."""
    connections: list[socket.socket] = []
    while server.fileno() >= 0:
        try:
            connections.append(server.accept()[0])
        except OSError:  # out of descriptors, or a peer that has left meanwhile; those who wait are not to be dropped
            time.sleep(POLL_S)
        left = [connection for connection in connections if _is_left(connection)]
        for connection in left:  # checks of the port connect and leave
            connections.remove(connection)
            connection.close()
    for connection in connections:
        connection.close()


def _is_left(connection: socket.socket) -> bool:
    """Returns whether nobody is at the other end any more."""
    try:
        return not connection.recv(1024, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def wait_for_head(address: str, port: int, is_stopped: Callable[[float], bool]) -> socket.socket | None:
    """Returns a connection to the port at which nodes join, once the head listens there; None if stopped before.

    Args:
        address: Of the head.
        port: At which it listens.
        is_stopped: Waits for that many seconds; returns whether nobody wants a connection any more.

    Raises:
        PlannerError: INVALID_CONFIG for what cannot be an address.
    """
    while not is_stopped(0.0):
        try:
            connection = socket.create_connection((address, port), JOIN_TIMEOUT_S)
        except UnicodeError as error:
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"{address!r} is no address: {error}") from error
        except OSError:
            is_stopped(POLL_S)
        else:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
                if hasattr(socket, option):  # a head that vanishes closes nothing
                    connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
            return connection
    return None


def wait_for_end(head: socket.socket, is_alive: Callable[[], bool]) -> None:
    """Returns when the head has ended, or what runs here does not live any more.

    vLLM's workers wait for the next step of their head for ever, whether it lives or not.
    """
    head.settimeout(POLL_S)
    while is_alive():
        try:
            if not head.recv(1024):
                return
        except TimeoutError:
            continue
        except OSError:
            return
