"""Serve the page with uvicorn until it is stopped."""

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
"""The default port, used if it is free."""


def listen(host: str, port: int | None) -> socket.socket:
    """A listening socket on ``port``; if that is None, on 8321 or, if that is taken, on any free port."""
    if port is None:
        with suppress(OSError):
            return _bound(host, PORT)
    try:
        return _bound(host, port or 0)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OptionError(f"cannot listen at {host}:{port or 0} ({reason}); choose another host or port") from None


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio only switches off Nagle's algorithm, which delays responses by 40 ms, for sockets made with IPPROTO_TCP
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
    """The address to open in a browser."""
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
    """Serve a project until Ctrl-C.

    An address that other machines can reach needs ``allow_remote``; clients then need the token in the address that
    ``say`` is called with. ``listening`` is a socket that ``listen`` returned for the host and port, if the caller has
    made one already.
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
    if review.is_busy:  # do not wait for computations in other threads; all decisions are on disk
        sys.stdout.flush()
        os._exit(0)


def check_host(host: str, *, allow_remote: bool) -> None:
    """Raise an error if other machines can reach ``host`` and that is not allowed explicitly."""
    if not allow_remote and not is_loopback(host):
        raise OptionError(f"other machines can reach {host}; set allow_remote to permit that, or listen at 127.0.0.1")
