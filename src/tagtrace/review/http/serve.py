"""Serving the page: a socket, an address to open, and uvicorn until it is stopped."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from tagtrace._checks import OptionError
from tagtrace.review.http.app import make_app
from tagtrace.review.http.gate import is_loopback
from tagtrace.review.review import Review

PORT = 8321
"""Where it is free."""


def listen(host: str, port: int | None) -> socket.socket:
    """A socket at a port: the one asked for; without one 8321, or any that is free."""
    if port is None:
        with suppress(OSError):
            return _bound(host, PORT)
    try:
        return _bound(host, port or 0)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OptionError(f"cannot listen at {host}:{port or 0} ({reason}); try another --host or --port") from None


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm, which adds 40 ms to answers, off where a socket says that it is TCP
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(128)
    except BaseException:
        sock.close()
        raise
    return sock


def address(sock: socket.socket, host: str, token: str | None) -> str:
    """What to open in a browser."""
    port = sock.getsockname()[1]
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    shown = f"[{name}]" if ":" in name else name
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")


def serve(
    review: Review,
    host: str = "127.0.0.1",
    port: int | None = None,
    *,
    allow_remote: bool = False,
    browser: bool = True,
    say: Callable[[str], None] = print,
    listening: socket.socket | None = None,
) -> None:
    """Serve until Ctrl-C. Another address than this machine's own needs ``allow_remote``, and clients the token.

    ``listening`` is what ``listen`` returned for the host and port, where the caller has made sure of them before.
    """
    check_host(host, allow_remote=allow_remote)
    token = None if is_loopback(host) else secrets.token_urlsafe(24)
    sock = listening or listen(host, port)
    url = address(sock, host, token)
    app = make_app(review, token, f"tagtrace-{sock.getsockname()[1]}")
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=3,
    )
    say(url)
    if browser:
        threading.Timer(0.5, webbrowser.open, (url,)).start()
    uvicorn.Server(config).run(sockets=[sock])
    if review.is_busy:  # a process that ends in the middle of a computation waits for it; decisions are on the disk
        sys.stdout.flush()
        os._exit(0)


def check_host(host: str, *, allow_remote: bool) -> None:
    """Raise where other machines could reach the server and nobody said that they may."""
    if not allow_remote and not is_loopback(host):
        raise OptionError(f"--host {host}: other machines could reach the page; pass --allow-remote if they should")
