"""Starts one server for the whole run, checks its log, and checks at the end that nothing of any sandbox is left."""

import os
from pathlib import Path

import pytest
from e2b import AsyncSandbox, Sandbox

import canary
from building import Builder
from images import Registries
from model_server import ModelServer
from nameserver import NameServer
from server import CABANA, CACHE, Server
from wire import Box, Client
from world import World, assert_nothing_runs

DATA = Path(os.environ.get("CABANA_TEST_DATA", "/var/lib/cabana-test"))


def pytest_sessionstart(session):
    if os.geteuid() != 0:
        pytest.exit("the black-box tests need root: they look at mounts, cgroups and network namespaces", 2)
    if not CABANA.exists():
        pytest.exit(f"{CABANA} is missing: ./test builds it", 2)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """No log of any server of this run contains a secret (see test_canary.py)."""
    if "CABANA_TEST_SERVER" in os.environ:
        return
    for log in CACHE.glob("server-*.log"):
        canary.check(log)
    if canary.found() and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def resolver() -> NameServer:
    return NameServer()


@pytest.fixture(scope="session")
def registries(tmp_path_factory):
    """Registries that the server may pull from."""
    registries = Registries(tmp_path_factory.mktemp("registries"))
    yield registries
    registries.close()


@pytest.fixture(scope="session")
def model_server():
    """The provider of the models that chats use."""
    model = ModelServer()
    yield model
    model.close()


@pytest.fixture(scope="session")
def configuration(registries, model_server, tmp_path_factory) -> str:
    """Configuration file of the server, for settings without an environment variable."""
    path = tmp_path_factory.mktemp("server") / "config.toml"
    path.write_text(registries.configuration() + model_server.configuration())
    return str(path)


@pytest.fixture(scope="session")
def server(request):
    if handle := os.environ.get("CABANA_TEST_SERVER"):
        # Another run has started it: see test_tls.py and other_sdk.py.
        domain = os.environ.get("E2B_DOMAIN")
        secure = {"CABANA_TLS_MODE": "internal", "CABANA_DOMAIN": domain.rsplit(":", 1)[0]} if domain else {}
        server = Server.attached(DATA, handle, **secure)
        server.idle = World.at_rest(DATA)
        yield server
        return
    resolver = request.getfixturevalue("resolver")
    configuration = request.getfixturevalue("configuration")
    # Shorter than the default, for start commands that never become ready.
    server = Server(DATA, CABANA_RESOLVERS=resolver.address, CABANA_CONFIG=configuration, CABANA_READY_SECONDS="20")
    server.start(within=1200)  # the first start on a machine builds the base system
    try:
        server.forget_all_chats()  # left by an earlier run that was interrupted
        server.end_all_sandboxes()
        server.forget_all_templates()
        os.environ.update(server.environment)
        os.environ.pop("E2B_DOMAIN", None)
        first = server.idle = World.at_rest(DATA)
        yield server
        server.forget_all_chats()
        server.end_all_sandboxes()
        server.forget_all_templates()
        first.assert_restored()
    finally:
        server.stop()
    assert_nothing_runs(DATA)


@pytest.fixture
def world(server):
    """State of the machine without sandboxes; `world.assert_restored()` compares."""
    return server.idle


@pytest.fixture(autouse=True)
def log(server):
    """Fails a test during which the server logged an error that was not announced with `log.append(text)`."""
    offset, expected = server.log_size(), []
    yield expected
    errors = [line for line in server.errors_since(offset) if not any(text in line for text in expected)]
    assert not errors, "unexpected errors in the server's log:\n" + "\n".join(errors[:10])


@pytest.fixture
def api(server) -> Client:
    client = server.client()
    yield client
    client.close()


@pytest.fixture
def model(model_server) -> ModelServer:
    """The provider of the models. Fails a test during which a request to it was not as it should be."""
    yield model_server
    model_server.check()


@pytest.fixture
def chats(server, model):
    """The API for chats; those that a test made are deleted at the end."""
    from chats import Chats

    chats = Chats(server)
    yield chats
    chats.close()


@pytest.fixture
def boxes(api, server):
    """Creates sandboxes over the wire; they are killed at the end."""
    made: list[Box] = []

    def make(**fields) -> Box:
        made.append(api.create(**fields))
        return made[-1]

    yield make
    client = server.client()
    for box in made:
        client.kill(box)
    client.close()


@pytest.fixture
def sandboxes(server):
    """Creates sandboxes with the SDK; they are killed at the end."""
    made: list[Sandbox] = []

    def make(*args, **options) -> Sandbox:
        made.append(Sandbox.create(*args, **{"timeout": 120, **options}))
        return made[-1]

    yield make
    for sandbox in made:
        sandbox.kill()


@pytest.fixture
def sandbox(sandboxes) -> Sandbox:
    return sandboxes()


@pytest.fixture
def builder(server):
    """Builds templates; they are deleted at the end."""
    builder = Builder(server)
    yield builder
    builder.close()


@pytest.fixture
def internet(resolver):
    """Allows names of package registries to be resolved during the test."""
    with resolver.passing_on():
        yield


@pytest.fixture
def well(registries):
    """The registries; faults are cleared afterwards."""
    yield registries
    registries.mend()


@pytest.fixture
async def async_sandbox(server):
    sandbox = await AsyncSandbox.create(timeout=120)
    yield sandbox
    await sandbox.kill()


# The console. The browser's library is imported here: runs with other SDKs do not have it.


@pytest.fixture(scope="module")
def chromium(server, tmp_path_factory):
    """A browser for the tests of a module."""
    from pages import Chromium

    chromium = Chromium(server.port, tmp_path_factory.mktemp("chromium"))
    yield chromium
    chromium.close()


@pytest.fixture(scope="module")
def person(server, chromium):
    """One person who is signed in, for all tests of a module: signing in is limited."""
    from pages import Console

    person = Console(server, chromium)
    yield person
    person.close()


@pytest.fixture
def console(person):
    """The person's console. Fails a test during which a page complained, executed something, or asked another host. Tests name it
    after `boxes`, so that pages are left before their sandboxes are killed."""
    yield person
    try:
        person.check_quiet()
    finally:
        person.leave()


# Figures and counts, shown at the end.

FIGURES = pytest.StashKey[list]()
JS_COUNTS = pytest.StashKey[dict]()


@pytest.fixture
def figures(request) -> list[str]:
    """Lines to show in the summary."""
    return request.config.stash.setdefault(FIGURES, [])


@pytest.fixture
def js_counts(request) -> dict[str, int]:
    return request.config.stash.setdefault(JS_COUNTS, {"passed": 0, "failed": 0, "skipped": 0})


def pytest_terminal_summary(terminalreporter, config):
    for leak in canary.found():
        terminalreporter.write_line(f"SECRET IN A LOG: {leak}", red=True)
    for line in config.stash.get(FIGURES, []):
        terminalreporter.write_line(line)
    stats = terminalreporter.stats
    count = {name: len(stats.get(name, [])) for name in ("passed", "failed", "error", "skipped")}
    js = config.stash.get(JS_COUNTS, {})
    if "CABANA_TEST_SERVER" in os.environ:
        return
    CACHE.mkdir(exist_ok=True)
    (CACHE / "counts").write_text(
        f"Python {count['passed']} passed, {count['failed'] + count['error'] + len(canary.found())} failed, {count['skipped']} skipped; "
        f"JS {js.get('passed', 0)} passed, {js.get('failed', 0)} failed, {js.get('skipped', 0)} skipped\n"
    )
