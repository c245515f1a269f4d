"""Ctrl-C, noticed wherever it strikes.

Python raises KeyboardInterrupt in whatever code runs. Some libraries turn it into an error of their own, and code that
frees an object cannot raise at all.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Whether Ctrl-C was pressed while a command ran."""

    have_come: bool = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notice Ctrl-C in this block; only in the main thread, as signals are."""
        self.have_come = False
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handler, hook = signal.getsignal(signal.SIGINT), sys.unraisablehook
        if handler is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._came)
        sys.unraisablehook = self._could_not_raise
        try:
            yield
        finally:
            sys.unraisablehook = hook
            if handler is signal.default_int_handler:
                signal.signal(signal.SIGINT, handler)

    def _came(self, number: int, frame: FrameType | None) -> None:
        self.have_come = True
        signal.default_int_handler(number, frame)

    def _could_not_raise(self, found: sys.UnraisableHookArgs) -> None:
        if found.exc_type is KeyboardInterrupt:
            threading.Timer(0.01, _thread.interrupt_main).start()  # once this function has ended
        else:
            sys.__unraisablehook__(found)
