# SPDX-License-Identifier: Apache-2.0
"""The dashboard over HTTP: one page, its files, a stream of documents, and one thing that it does: it stops robots.

All else reads, and changes nothing. A stop needs a secret token that is made at the start, in a header that no form and
no page of another site can send. A client that can reach the port sees the fleet, so it listens on loopback unless told
otherwise. A page of another site must not read it through a visitor's browser: no CORS headers are sent, and a host
name that is not expected is refused (an address that is a number cannot be rebound by a
foreign name server). There are no cookies and no forms.
"""

import asyncio
import hmac
import ipaddress
import os
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.monitoring.hub import MAX_CLIENTS, Hub

STATIC = Path(__file__).parent / "static"
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
STOP_TIMEOUT_S = 3.0
STALL_S = 20.0  # a browser that takes nothing for this long is cut off: the hub has long sent it away
MAX_NAME_BYTES = 256
MAX_CONNECTIONS = 256  # more get 503
REQUEST_S = 10.0  # a connection on which no request has begun for this long, and none runs, is closed


@dataclass(frozen=True, slots=True)
class StopButton:
    """What stops robots, and the secret that a caller must know.

    Attributes:
        stop: Halts a robot, or all if the name is empty; returns by name why one did not halt, empty for one that did.
        token: Made at the start; nowhere but in the link that is printed then.
    """

    stop: Callable[[str], Mapping[str, str]]
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def is_known_to(self, request: Request) -> bool:
        """Returns whether a request has the token; takes as long for a wrong one as for a right one."""
        return hmac.compare_digest(request.headers.get("authorization", "").encode(), f"Bearer {self.token}".encode())


def build_app(
    hub: Hub, whole: Callable[[], str], hosts: Collection[str] = (), button: StopButton | None = None
) -> ASGIApp:
    """Returns the dashboard as an ASGI application.

    Args:
        hub: Where documents come from.
        whole: Returns a whole document as JSON.
        hosts: Host names that browsers may use, besides ``localhost`` and addresses that are numbers.
        button: Stops robots; None for a dashboard that cannot.
    """

    async def stop(request: Request) -> Response:
        if button is None or not button.is_known_to(request):
            return PlainTextResponse("the token is missing or wrong; use the link that was printed\n", status_code=403)
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_NAME_BYTES:
                return PlainTextResponse("this is no robot's name\n", status_code=413)
        problems = await run_in_threadpool(button.stop, body.decode(errors="replace"))
        return JSONResponse(dict(problems), status_code=200 if problems else 404)

    async def page(_: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def state(_: Request) -> Response:
        return Response(whole(), media_type="application/json")

    async def events(_: Request) -> Response:
        if hub.num_clients >= MAX_CLIENTS:
            return PlainTextResponse(f"{MAX_CLIENTS} browsers look already; close one\n", status_code=503)
        return StreamingResponse(_as_events(hub), media_type="text/event-stream")

    routes = [
        Route("/", page, methods=["GET"]),
        Route("/state.json", state, methods=["GET"]),
        Route("/events", events, methods=["GET"]),
        Route("/stop", stop, methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return _Guard(Starlette(routes=routes), frozenset(host.lower() for host in hosts))


async def _as_events(hub: Hub) -> AsyncIterator[str]:
    """Yields documents as server-sent events; JSON text holds no line ends, so one line each."""
    yield "retry: 1000\n\n"
    async for document in hub.listen():
        yield f"data: {document}\n\n"


class _Guard:
    """Refuses foreign host names and other sites' pages, and adds the headers that every answer carries."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if not self._is_ours(headers.get("host", "")):
            name = "this host name is not expected; allow it with --allow-host, or use the address\n"
            await PlainTextResponse(name, status_code=421)(scope, receive, send)
            return
        if headers.get("sec-fetch-site", "none") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            await PlainTextResponse("not for other sites\n", status_code=403)(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _is_ours(self, host: str) -> bool:
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        name = name.strip("[]").lower()
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name == "localhost" or name in self._hosts
        return True


class _PromptClients(H11Protocol):
    """Closes connections of clients that ask for nothing: they would keep others out for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as its base
        super().connection_made(transport)
        self.loop.call_later(REQUEST_S, self._look, None)

    def _look(self, last: RequestResponseCycle | None) -> None:
        """Closes the connection if there was no request behind the last one, which has been answered."""
        if self.cycle is last and getattr(last, "response_complete", True):
            self.transport.close()
        elif not self.transport.is_closing():
            self.loop.call_later(REQUEST_S, self._look, self.cycle)


def _reason(error: Exception) -> str:
    number = getattr(error, "errno", None)
    return os.strerror(number) if isinstance(number, int) and number > 0 else str(error)


class WebServer:
    """Serves an application in a thread of its own.

    Args:
        app: What is served.
        host: Address to listen on.
        port: TCP port; 0 lets the system choose one.

    Attributes:
        url: Where a browser finds it.

    Raises:
        PlannerError: ADDRESS_IN_USE if the address cannot be listened on (the port is taken, say).
    """

    def __init__(self, app: ASGIApp, host: str, port: int) -> None:
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * STALL_S))  # inherited
        except (OSError, OverflowError) as error:
            raise PlannerError(
                ErrorCode.ADDRESS_IN_USE,
                f"the dashboard cannot listen on {host}:{port} ({_reason(error)}); give another port or host",
            ) from error
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._socket.getsockname()[1]}/"
        config = uvicorn.Config(
            app, log_config=None, access_log=False, loop="asyncio", http=_PromptClients, ws="none", lifespan="off",
            server_header=False, timeout_graceful_shutdown=1, limit_concurrency=MAX_CONNECTIONS,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="dashboard", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and frees the port."""
        self._server.should_exit = True
        self._thread.join(STOP_TIMEOUT_S)
        self._socket.close()
