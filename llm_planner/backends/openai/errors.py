# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between the planner and a model server."""

from llm_planner.core.errors import ErrorCode


class ServerError(Exception):
    """A request to the server did not bring what was asked for.

    Args:
        code: Which way it failed.
        message: What happened and what to do next.
        is_final: Whether asking again would not help.
        status: Of HTTP, if the server refused the request.
    """

    def __init__(self, code: ErrorCode, message: str, *, is_final: bool, status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.is_final = is_final
        self.status = status
