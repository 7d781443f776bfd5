"""A bar for work that takes longer than two seconds: one line on stderr that is wiped when the work is done.

It knows no terminal library, so that learners can use it from anywhere. Off a terminal it says nothing.
"""

import sys
import time
from typing import TextIO

_PATIENCE = 2.0
_PAUSE = 0.1
_WIDTH = 30


class ProgressBar:
    r"""Called with (done, total) now and then.

    >>> import io
    >>> screen = io.StringIO()
    >>> screen.isatty = lambda: True
    >>> ProgressBar("fit", screen, patience=0.0)(1, 4)
    >>> screen.getvalue()
    '\r\x1b[Kfit ███████▌                       1 of 4'
    """

    def __init__(self, label: str, stream: TextIO | None = None, patience: float = _PATIENCE) -> None:
        self.label, self.stream = label, sys.stderr if stream is None else stream
        self.due = time.monotonic() + patience
        self.drawn = False

    def __call__(self, done: int, total: int) -> None:
        if done >= total:
            self.wipe()
        elif self.stream.isatty() and time.monotonic() >= self.due:
            eighths = 8 * _WIDTH * done // max(1, total)
            filled = "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")
            self._write(f"\r\x1b[K{self.label} {filled:<{_WIDTH}} {done} of {total}")
            self.due, self.drawn = time.monotonic() + _PAUSE, True

    def wipe(self) -> None:
        """Take the bar away."""
        if self.drawn:
            self._write("\r\x1b[K")
            self.drawn = False

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()
