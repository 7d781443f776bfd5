"""The bar says nothing about quick work, nothing off a terminal, and leaves nothing behind."""

import io

from natsel.progress import ProgressBar


class Screen(io.StringIO):
    def __init__(self, terminal=True):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


def test_quick_work_and_files_see_nothing():
    for bar in (ProgressBar("fit", Screen()), ProgressBar("fit", Screen(terminal=False), patience=0.0)):
        for done in range(5):
            bar(done, 4)
        assert bar.stream.getvalue() == ""


def test_it_fills_and_is_wiped_when_done_or_broken_off():
    bar = ProgressBar("fit", Screen(), patience=0.0)
    bar(0, 2)
    bar.due = 0.0
    bar(1, 2)
    assert bar.stream.getvalue().endswith("\r\x1b[Kfit " + "█" * 15 + " " * 15 + " 1 of 2")
    bar(2, 2)
    assert bar.stream.getvalue().endswith("1 of 2\r\x1b[K")
    wiped = bar.stream.getvalue()
    bar.wipe()
    assert bar.stream.getvalue() == wiped


def test_work_without_a_size_is_no_error():
    bar = ProgressBar("fit", Screen(), patience=0.0)
    bar(0, 0)
    assert bar.stream.getvalue() == ""
