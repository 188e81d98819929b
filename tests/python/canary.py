"""Secrets that must never be in a log: values that the tests send, and every key and token that they were given."""

import os
import re
from pathlib import Path

_KNOWN: dict[str, str] = {}
_FOUND: list[str] = []


def secret(kind: str) -> str:
    """A recognisable secret value."""
    value = f"canary-{kind.replace(' ', '-')}-{os.urandom(8).hex()}"
    return remember(kind, value)


def remember(kind: str, value: str | None) -> str:
    """From now on the value must not be in any log."""
    if value:
        _KNOWN[value] = kind
    return value or ""


def leaks(text: str) -> list[str]:
    """The kinds of secrets in a text, with what precedes each."""
    if not _KNOWN:
        return []
    pattern = re.compile("|".join(map(re.escape, _KNOWN)))
    return [f"{_KNOWN[m[0]]}: …{text[max(0, m.start() - 120) : m.start()]}" for m in pattern.finditer(text)]


def check(log: Path) -> None:
    """Remembers what a log tells, to be reported at the end of the run."""
    try:
        text = log.read_text(errors="replace")
    except FileNotFoundError:
        return
    _FOUND.extend(f"{log.name}: {leak}" for leak in leaks(text))


def found() -> list[str]:
    return _FOUND
