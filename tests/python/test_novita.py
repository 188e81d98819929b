"""Novita's fork of the SDK, by `NOVITA_API_URL` and `NOVITA_SANDBOX_URL` on plain HTTP: novita_sdk.py in its own environment.
test_tls.py runs it by `NOVITA_DOMAIN`."""

import re

from other_sdk import pytest_with


def test_novita(server):
    done = pytest_with(
        "novita",
        server,
        "--noconftest",  # that needs E2B's SDK
        "novita_sdk.py",
        NOVITA_API_URL=server.url,
        NOVITA_SANDBOX_URL=server.url,
        NOVITA_API_KEY=server.key,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert re.search(r"\d+ passed", done.stdout) and "skipped" not in done.stdout, done.stdout
