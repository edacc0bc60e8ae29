# SPDX-License-Identifier: Apache-2.0
"""Whether the machines of a cluster can be reached, before anything is started on them."""

import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from llm_planner.backends.cluster.description import Node
from llm_planner.core.errors import ErrorCode, PlannerError

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
    except OSError as error:
        return error.strerror or str(error)
    return None
