"""Serve the page with uvicorn until it is stopped."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn

from tagtrace._checks import OptionError
from tagtrace._visible import visible_lines
from tagtrace.review.http.app import make_app
from tagtrace.review.http.connection import IDLE_SECONDS, Connection
from tagtrace.review.http.entrance import going_on
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


def address(sock: socket.socket, token: str) -> str:
    """The address to open in a browser: in numbers, because a name may lead to the server of somebody else.

    At another address of this machine, as the other one of ``localhost``, the same port belongs to whoever takes it.
    """
    host, port = sock.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = _own_address(sock.family)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/?token={token}"


def _own_address(family: int) -> str:
    """The address that other machines know this one by, or the loopback one; nothing is sent to find it."""
    elsewhere, here = ("2001:db8::1", "::1") if family == socket.AF_INET6 else ("192.0.2.1", "127.0.0.1")
    with socket.socket(family, socket.SOCK_DGRAM) as sock, suppress(OSError):
        sock.connect((elsewhere, 9))
        return sock.getsockname()[0]
    return here


class VisibleFormatter(logging.Formatter):
    """Errors are logged with their tracebacks, which may have text from files and requests in them."""

    def format(self, record: logging.LogRecord) -> str:
        return visible_lines(super().format(record))


_LOG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"visible": {"()": VisibleFormatter, "format": "%(levelname)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "visible"}},
    "loggers": {
        "uvicorn": {"handlers": ["stderr"], "propagate": False},
        "asyncio": {"handlers": ["stderr"]},
        "tagtrace": {"handlers": ["stderr"]},
    },
}


def configured(app: Any) -> uvicorn.Config:
    """How uvicorn serves an application of ``make_app``."""
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_level="error",  # not a line for each request that is not HTTP
        log_config=_LOG,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=3,
    )


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

    Clients need the token in the address that ``say`` is called with. An address that other machines can reach needs
    ``allow_remote``. ``listening`` is a socket that ``listen`` returned for the host and port, if the caller has
    made one already.
    """
    check_host(host, allow_remote=allow_remote)
    token = secrets.token_urlsafe(24)
    sock = listening or listen(host, port)
    bound, port = sock.getsockname()[:2]
    check_host(bound, allow_remote=allow_remote)  # a name may stand for any address
    url = address(sock, token)
    app = make_app(review, token, f"tagtrace-{port}", is_remote=not is_loopback(bound))
    config = configured(app)
    say(url)
    with _private_page(url) as page:
        if browser:
            threading.Timer(0.5, webbrowser.open, (page.as_uri(),)).start()
        uvicorn.Server(config).run(sockets=[sock])
    if review.is_busy:  # do not wait for computations in other threads; all decisions are on disk
        sys.stdout.flush()
        os._exit(0)


@contextmanager
def _private_page(url: str) -> Iterator[Path]:
    """A page that goes on to the address, which nobody else can read: a browser's arguments are seen by all users."""
    with TemporaryDirectory(prefix="tagtrace-") as folder:  # only for this user
        page = Path(folder) / "open.html"
        page.write_bytes(going_on(url))
        yield page


def check_host(host: str, *, allow_remote: bool) -> None:
    """Raise an error if other machines can reach ``host`` and that is not allowed explicitly."""
    if not allow_remote and not is_loopback(host):
        raise OptionError(f"other machines can reach {host}; set allow_remote to permit that, or listen at 127.0.0.1")
