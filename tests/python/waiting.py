"""Waits for a condition with a deadline, instead of sleeping for a guessed time."""

import time
from typing import Callable, TypeVar

T = TypeVar("T")


def eventually(check: Callable[[], T], within: float = 10.0, every: float = 0.02, what: str = "") -> T:
    """Calls `check` until it returns a true value, and returns that. At the deadline its last result or error is raised."""
    deadline = time.monotonic() + within
    while True:
        try:
            answer, error = check(), None
        except Exception as caught:  # an error may be temporary
            answer, error = None, caught
        if answer:
            return answer
        if time.monotonic() >= deadline:
            name = what or getattr(check, "__name__", "the condition")
            raise AssertionError(f"{name} did not hold within {within} s; last: {error or answer!r}") from error
        time.sleep(every)


def within(seconds: float, started: float, what: str) -> None:
    """Fails if more than `seconds` have passed since `started` (a `time.monotonic()`)."""
    took = time.monotonic() - started
    assert took <= seconds, f"{what} took {took:.2f} s, more than {seconds} s"
