"""Commands through the SDK: output, exit codes, environment, users, limits, background, input, terminals."""

import time

import pytest
from e2b import (
    AuthenticationException,
    CommandExitException,
    InvalidArgumentException,
    NotFoundException,
    PtySize,
    SandboxException,
    TimeoutException,
)

from waiting import eventually, within


def test_output_and_exit_code(sandbox):
    result = sandbox.commands.run("echo out; echo err >&2")
    assert (result.stdout, result.stderr, result.exit_code, result.error) == ("out\n", "err\n", 0, None)
    with pytest.raises(CommandExitException) as caught:
        sandbox.commands.run("echo partly; echo why >&2; exit 42")
    assert (caught.value.exit_code, caught.value.stdout, caught.value.stderr) == (42, "partly\n", "why\n")
    assert caught.value.error == "exit status 42"


def test_output_is_streamed(sandbox):
    seen = []
    sandbox.commands.run(
        "echo one; sleep 0.4; echo two >&2; sleep 0.4; echo three",
        on_stdout=lambda text: seen.append((time.monotonic(), text)),
        on_stderr=lambda text: seen.append((time.monotonic(), text)),
    )
    assert [text for _, text in seen] == ["one\n", "two\n", "three\n"]
    assert seen[2][0] - seen[0][0] > 0.5


def test_unicode_and_binary_output(sandbox):
    text = "žluťoučký 🐎 " * 5000
    sandbox.files.write("/tmp/text", text)
    assert sandbox.commands.run("cat /tmp/text").stdout == text
    assert sandbox.commands.run(r"printf '\xff\x00ok'").stdout.endswith("ok")


def test_large_output(sandbox):
    result = sandbox.commands.run("head -c 20000000 /dev/zero | tr '\\0' x")
    assert len(result.stdout) == 20_000_000


def test_users(sandbox):
    assert sandbox.commands.run("whoami; pwd; echo $HOME").stdout == "user\n/home/user\n/home/user\n"
    assert sandbox.commands.run("whoami; id -u; echo $HOME", user="root").stdout == "root\n0\n/root\n"
    assert sandbox.commands.run("sudo whoami").stdout == "root\n"
    assert sandbox.commands.run("sudo -u user whoami", user="root").stdout == "user\n"
    with pytest.raises(AuthenticationException, match="invalid username: 'nobody-here'"):
        sandbox.commands.run("true", user="nobody-here")


def test_working_directory(sandbox):
    assert sandbox.commands.run("pwd", cwd="/tmp").stdout == "/tmp\n"
    sandbox.files.make_dir("work")
    assert sandbox.commands.run("pwd", cwd="work").stdout == "/home/user/work\n"
    with pytest.raises(InvalidArgumentException, match="does not exist"):
        sandbox.commands.run("pwd", cwd="/no/such/place")


def test_environment_of_a_command(sandbox):
    result = sandbox.commands.run("echo $A-$B", envs={"A": "1", "B": "two words"})
    assert result.stdout == "1-two words\n"
    assert sandbox.commands.run("echo $USER $LOGNAME").stdout == "user user\n"


def test_command_timeout(sandbox):
    started = time.monotonic()
    with pytest.raises(TimeoutException):
        sandbox.commands.run("echo $$ > /tmp/pid; exec sleep 1000", timeout=1)
    within(5, started, "a command with a limit of 1 s")
    eventually(lambda: sandbox.commands.run("kill -0 $(cat /tmp/pid) 2>/dev/null || echo gone").stdout == "gone\n")


def test_killed_by_signal(sandbox):
    with pytest.raises(CommandExitException) as caught:
        sandbox.commands.run("kill -9 $$")
    assert caught.value.exit_code == -1
    assert caught.value.error == "signal: killed"


def test_background(sandbox):
    handle = sandbox.commands.run("echo begin; sleep 0.3; echo end; exit 3", background=True)
    assert handle.pid > 0
    with pytest.raises(CommandExitException) as caught:
        handle.wait()
    assert (caught.value.stdout, caught.value.exit_code) == ("begin\nend\n", 3)


def test_list_connect_kill(sandbox):
    handle = sandbox.commands.run("for i in $(seq 1000); do echo $i; sleep 0.05; done", background=True)
    listed = {process.pid: process for process in sandbox.commands.list()}
    assert listed[handle.pid].cmd == "/bin/bash" and listed[handle.pid].args[:2] == ["-l", "-c"]
    handle.disconnect()
    again = sandbox.commands.connect(handle.pid)
    assert again.pid == handle.pid
    chunks = iter(again)
    first = next(chunks)[0]
    second = next(chunks)[0]
    assert int(second.split()[0]) > int(first.split()[0]) >= 1
    assert sandbox.commands.kill(handle.pid) is True
    with pytest.raises(CommandExitException) as caught:
        again.wait()
    assert caught.value.exit_code == -1
    assert sandbox.commands.kill(handle.pid) is False
    eventually(lambda: handle.pid not in [process.pid for process in sandbox.commands.list()])


def test_kill_ends_a_foreground_command(sandbox):
    handle = sandbox.commands.run("sleep 1000", background=True)
    assert handle.kill() is True
    with pytest.raises(CommandExitException):
        handle.wait()


def test_unknown_process(sandbox):
    assert sandbox.commands.kill(999_999) is False
    with pytest.raises(NotFoundException):
        sandbox.commands.connect(999_999)
    with pytest.raises(NotFoundException):
        sandbox.commands.send_stdin(999_999, "x")


def test_input(sandbox):
    handle = sandbox.commands.run("cat", background=True, stdin=True)
    handle.send_stdin("first\n")
    handle.send_stdin(b"second\n")
    handle.close_stdin()
    assert handle.wait().stdout == "first\nsecond\n"


def test_streamed_input(sandbox):
    handle = sandbox.commands.run("wc -c", background=True, stdin=True)
    sandbox.commands.stream_input(handle.pid, (b"x" * 10_000 for _ in range(50)))
    handle.close_stdin()
    assert handle.wait().stdout.strip() == "500000"


def test_stdin_is_closed_by_default(sandbox):
    assert sandbox.commands.run("cat").stdout == ""
    handle = sandbox.commands.run("sleep 1000", background=True)
    with pytest.raises(SandboxException):
        handle.send_stdin("x")
    handle.kill()


def test_many_at_once(sandbox):
    handles = [sandbox.commands.run(f"sleep 0.2; echo {n}", background=True) for n in range(30)]
    assert [handle.wait().stdout for handle in handles] == [f"{n}\n" for n in range(30)]


def test_orphans_do_not_hold_the_command(sandbox):
    started = time.monotonic()
    sandbox.commands.run("(sleep 1000 >/dev/null 2>&1 </dev/null &) ; echo done")
    within(5, started, "a command that leaves a daemon")
    assert "sleep 1000" in sandbox.commands.run("ps -eo args").stdout


def read_until(handle, wanted: bytes, within_seconds: float = 10) -> bytes:
    """Reads a terminal until a text appears."""
    seen, deadline = b"", time.monotonic() + within_seconds
    for _, _, data in handle:
        seen += data or b""
        if wanted in seen:
            return seen
        assert time.monotonic() < deadline, seen
    raise AssertionError(f"the terminal ended: {seen!r}")


def test_terminal_with_resize(sandbox):
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80), envs={"MARK": "here"})
    sandbox.pty.send_stdin(terminal.pid, b"stty size; echo $MARK-$TERM; tty\n")
    seen = read_until(terminal, b"/dev/pts/")
    assert b"24 80" in seen and b"here-xterm-256color" in seen
    sandbox.pty.resize(terminal.pid, PtySize(rows=50, cols=132))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; echo sized\n")
    assert b"50 132" in read_until(terminal, b"\nsized")
    sandbox.pty.send_stdin(terminal.pid, b"exit 0\n")
    assert terminal.wait().exit_code == 0


def test_terminal_reconnect_and_kill(sandbox):
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    terminal.disconnect()
    again = sandbox.pty.connect(terminal.pid)
    sandbox.pty.send_stdin(terminal.pid, b"echo re$((1+1))connected\n")
    read_until(again, b"re2connected")
    assert sandbox.pty.kill(terminal.pid) is True
    with pytest.raises(CommandExitException):
        again.wait()


def test_interrupt_in_a_terminal(sandbox):
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    sandbox.pty.send_stdin(terminal.pid, b"sleep 1000\n")
    eventually(lambda: sandbox.commands.run("pgrep -x sleep || true").stdout)
    sandbox.pty.stream_input(terminal.pid, [b"\x03", b"echo st$((40+2))opped\n"])
    read_until(terminal, b"st42opped")
    sandbox.pty.kill(terminal.pid)
