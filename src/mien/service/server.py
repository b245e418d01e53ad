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
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mien.core.errors import MienError

MOST_CONNECTIONS = 512
SECONDS_FOR_A_REQUEST = 10  # to send its headers; bodies have their own limit
SECONDS_TO_STOP = 10


class TimeLimitedProtocol(HttpToolsProtocol):
    """HTTP with a time limit: uvicorn itself waits for ever for the rest of a request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepts a connection, or closes it if there are too many: the process has a limit of open files."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self.loop.call_later(SECONDS_FOR_A_REQUEST, self._close_if_idle, None)

    def _close_if_idle(self, before: object) -> None:
        """Closes the connection if no request came since the last call."""
        if self.transport.is_closing():
            return
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self.cycle is before:
            self.transport.close()
        else:
            self.loop.call_later(SECONDS_FOR_A_REQUEST, self._close_if_idle, self.cycle)


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


def check_certificate(certificate: Path, key: Path) -> None:
    """Refuses files that TLS cannot use, before anything listens."""
    for path in (certificate, key):
        if not path.is_file():
            raise MienError(f"{path}: there is no such file")
    try:
        # an empty password: with none, OpenSSL would ask for it on the terminal
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise MienError(f"{certificate} and {key} are no certificate with its key, not encrypted, in PEM") from error


def configured(app: FastAPI, certificate: Path | None = None, key: Path | None = None) -> uvicorn.Config:
    """The configuration of uvicorn."""
    return uvicorn.Config(
        app,
        http=TimeLimitedProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the audit log names the address of the socket
        timeout_graceful_shutdown=SECONDS_TO_STOP,
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if key is None else str(key),
    )


def listen(config: uvicorn.Config, bound: socket.socket) -> None:
    """Serves until a signal ends it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = 4 * MOST_CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 4 * MOST_CONNECTIONS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, enough), hard))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # uvicorn handles it, ends, and raises it again
    signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    uvicorn.Server(config).run(sockets=[bound])
