"""Servers to be killed: for each line on standard input one more process serves the light project in a folder.

    python -m tests.review.killed_server FOLDER

prints its process id and port. Everything is imported once and each server is a fork, so that starting one takes
milliseconds: what serves is the whole application under uvicorn, with the database of decisions opened again.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import uvicorn

from tagtrace.review.http.app import make_app
from tagtrace.review.http.serve import configured, listen
from tests.review.made import light_review


def serve(sock: socket.socket, folder: Path) -> None:
    app = make_app(light_review(folder))
    uvicorn.Server(configured(app)).run(sockets=[sock])


def main(folder: Path) -> None:
    child = 0
    for _ in sys.stdin:
        if child:
            os.waitpid(child, 0)
        sock = listen("127.0.0.1", 0)
        child = os.fork()
        if child == 0:
            try:
                serve(sock, folder)
            finally:
                os._exit(0)
        print(child, sock.getsockname()[1], flush=True)
        sock.close()
    if child:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
