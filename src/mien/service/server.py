"""Runs the application: socket, TLS, limits of connections, signals."""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
import ssl
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from mien.errors import MienError
from mien.service.access_checks import SECURITY_HEADERS, address_group
from mien.service.problems import Problem

MOST_CONNECTIONS = 512
MOST_OF_AN_ADDRESS = 64  # connections
MOST_HEADERS = 100
MOST_HEADER_BYTES = 32_768  # browsers send less than two thousand
MOST_PIPELINED = 16  # requests that wait on one connection
SECONDS_FOR_A_REQUEST = 5  # to send its headers; bodies have their own limit
SECONDS_TO_STOP = 10


class LimitedProtocol(HttpToolsProtocol):
    """HTTP with limits: uvicorn itself takes headers without end, and waits for ever for the rest of a request."""

    header_bytes = 0  # of this request
    unread_bytes = 0  # received since the parser last found the end of headers, or a piece of a body
    refusal: Problem | None = None
    tls: ssl.SSLContext | None = None
    early_data = b""  # came with the end of the handshake

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepts a connection. Where there are too many, an idle one is closed, the oldest first."""
        super().connection_made(transport)
        self.address = address_group(self.client[0] if self.client else None)
        self.opened = self.loop.time()
        limited = (each for each in self.connections if isinstance(each, LimitedProtocol))
        connections = [each for each in limited if not each.transport.is_closing()]
        neighbours = [each for each in connections if each.address == self.address]
        if len(neighbours) > MOST_OF_AN_ADDRESS or len(connections) > MOST_CONNECTIONS:
            crowd = neighbours if len(neighbours) > MOST_OF_AN_ADDRESS else connections
            idle = [each for each in crowd if each.is_idle and each is not self]
            # those on which nothing was ever asked go first
            leaving = min(idle, key=lambda each: (each.cycle is not None, each.opened), default=self)
            leaving.transport.abort()
        self.loop.call_later(SECONDS_FOR_A_REQUEST, self._close_if_idle, None)
        if self.tls is not None:
            transport.pause_reading()
            self.handshake = self.loop.create_task(self._start_tls(transport, self.tls))

    async def _start_tls(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        """Begins TLS after the connection is counted: asyncio itself would report it only after its handshake."""
        try:
            encrypted = await self.loop.start_tls(
                transport, self, context, server_side=True, ssl_handshake_timeout=SECONDS_FOR_A_REQUEST
            )
        except OSError:  # no TLS, cut off, or too slow
            encrypted = None
        if encrypted is None or transport.is_closing():
            transport.abort()
            self.connections.discard(self)
            return
        self.transport, self.flow, self.scheme = encrypted, FlowControl(encrypted), "https"
        if self.early_data:
            self.data_received(self.early_data)

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _close_if_idle(self, before: object) -> None:
        """Closes the connection if no request came since the last call."""
        if self.transport.is_closing():
            return
        if self.is_idle and self.cycle is before:
            self.transport.close()
        else:
            self.loop.call_later(SECONDS_FOR_A_REQUEST, self._close_if_idle, self.cycle)

    def data_received(self, data: bytes) -> None:
        """Parses what came; refuses headers that do not end."""
        if self.tls is not None and self.scheme != "https":
            self.early_data += data
            return
        self.unread_bytes += len(data)
        super().data_received(data)
        if self.unread_bytes > MOST_HEADER_BYTES and not self.transport.is_closing():
            self.refusal = too_many_headers()
            self.send_400_response("")

    def on_message_begin(self) -> None:
        """Called at the first byte of a request."""
        super().on_message_begin()
        self.header_bytes = 0
        if len(self.pipeline) >= MOST_PIPELINED:
            raise too_many_headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called for each header, and for each trailer of a body in chunks."""
        super().on_header(name, value)
        self.header_bytes += len(name) + len(value)
        if len(self.headers) > MOST_HEADERS or self.header_bytes > MOST_HEADER_BYTES:
            self.refusal = too_many_headers()
            raise too_many_headers()  # ends the parser; a new error, because a raised one keeps this connection

    def on_headers_complete(self) -> None:
        """Called at the empty line."""
        self.unread_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Called for each piece of a body."""
        self.unread_bytes = 0
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """Answers bytes that are no HTTP request with a problem document."""
        if self.is_idle:
            self.transport.write(raw_response(self.refusal or Problem(400, "invalid-http", msg)))
            self.transport.close()
        else:  # half of another answer may be sent
            self.transport.abort()


def too_many_headers() -> Problem:
    """Makes a new error each time: one that is raised again keeps its tracebacks, and the received bytes in them."""
    most = f"a request has at most {MOST_HEADERS} headers of {MOST_HEADER_BYTES:,} bytes in all"
    return Problem(431, "too-many-headers", most)


def raw_response(problem: Problem) -> bytes:
    """A problem as the bytes of an HTTP answer, for requests that never reach the application."""
    response = problem.response
    headers = {**SECURITY_HEADERS, **response.headers, "connection": "close"}
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    return STATUS_LINE[problem.status] + "".join([*lines, "\r\n"]).encode() + bytes(response.body)


def bound_socket(host: str, port: int) -> socket.socket:
    """A listening socket. It names TCP as its protocol: only then does asyncio turn Nagle's delay off."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen()  # before the address is printed
    except OSError as error:
        bound.close()
        raise MienError(f"{host}:{port}: {error.strerror}: choose another --port or --host") from error
    return bound


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """What TLS needs; refuses files that it cannot use, before anything listens."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    for path in (certificate, key):
        if not path.is_file():
            raise MienError(f"{path}: there is no such file")
    try:
        # an empty password: with none, OpenSSL would ask for it on the terminal
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise MienError(f"{certificate} and {key} are no certificate with its key, not encrypted, in PEM") from error
    return context


def uvicorn_config(app: FastAPI, tls: ssl.SSLContext | None = None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=type("Protocol", (LimitedProtocol,), {"tls": tls}),
        ws="none",
        log_config=None,  # its records go to the service's log
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the audit log names the address of the socket
        timeout_graceful_shutdown=SECONDS_TO_STOP,
    )


def run_server(config: uvicorn.Config, bound: socket.socket) -> None:
    """Serves until a signal ends it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = 4 * MOST_CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 4 * MOST_CONNECTIONS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, enough), hard))
    server = uvicorn.Server(config)
    for number in (signal.SIGINT, signal.SIGTERM):  # until uvicorn handles it, and when it raises it again at the end
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    server.run(sockets=[bound])
