"""Runs inside a sandbox and tries what attempts.toml describes. Reads the attempts as JSON from the file that is its first argument, and prints one
JSON object: the outcome of each attempt, and facts about the process and its view.

With `--control` it runs on the host, as root in scratch namespaces, where attempts must get through. Every attempt then has its own
namespaces and /tmp, devices are only looked up, and calls that would change the machine have other arguments."""

import ctypes
import errno
import fcntl  # noqa: F401 — for attempts
import json
import mmap  # noqa: F401
import os
import signal
import socket
import struct  # noqa: F401
import sys
import textwrap

CONTROL = "--control" in sys.argv
NULL = ctypes.c_void_p(0)
libc = ctypes.CDLL(None, use_errno=True)


def name_of(number: int) -> str:
    return errno.errorcode.get(number, str(number))


def call(number: int, *arguments) -> str:
    """The error of a system call, or `ok`."""
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    return "ok" if result >= 0 else name_of(ctypes.get_errno())


def in_child(attempt) -> str:
    """The outcome of an attempt, in a child, because it may end or change the process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if CONTROL:
                scratch()
            os.write(write, str(attempt()).encode())
        except OSError as error:
            os.write(write, name_of(error.errno).encode())
        except BaseException as error:
            os.write(write, repr(error).encode())
        os._exit(0)
    os.close(write)
    text = os.read(read, 4096).decode()
    os.close(read)
    _, status = os.waitpid(child, 0)
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else text


def scratch() -> None:
    """Namespaces for one attempt: mounts, host name, message queues, network; a session without a terminal; an empty /tmp with one file."""
    os.setsid()
    if call(272, 0x20000 | 0x4000000 | 0x8000000 | 0x40000000) != "ok":
        raise RuntimeError("unshare for the control")
    if call(165, b"none", b"/tmp", b"tmpfs", 0, NULL) != "ok":
        raise RuntimeError("mount for the control")
    open("/tmp/x", "w").close()
    os.chdir("/")


def argument(value):
    """An argument of a system call, as attempts.toml writes it."""
    if isinstance(value, int):
        return value
    kind, _, rest = value.partition(":")
    if kind == "null":
        return NULL
    if kind == "text":
        return ctypes.c_char_p(rest.encode())
    if kind == "zeros":
        return ctypes.create_string_buffer(int(rest))
    given, _, zeros = rest.partition("+")
    return ctypes.create_string_buffer(bytes.fromhex(given) + bytes(int(zeros or 0)))


def opening(path: str, flags: int) -> str:
    if CONTROL and path.startswith("/dev/"):
        os.close(os.open(path, os.O_PATH))
        return "ok"
    if flags == os.O_RDONLY and os.path.isdir(path):
        return "ok" if os.listdir(path) else "empty"
    handle = os.open(path, flags | os.O_NONBLOCK)
    if CONTROL or flags & os.O_WRONLY:
        return "ok"
    return "ok" if os.read(handle, 64) else "empty"


def cloning(flag: int) -> str:
    """By `clone` as `fork` uses it; the new process ends at once."""
    ctypes.set_errno(0)
    result = libc.syscall(56, flag | signal.SIGCHLD, 0, 0, 0, 0)
    if result == 0:
        os._exit(0)
    return "ok" if result > 0 else name_of(ctypes.get_errno())


def running(attempt: dict) -> str:
    # `number` is a device that no sandbox may open; the control finds one that exists.
    names = {**globals(), "number": [254, 0]}
    if CONTROL:
        exec(attempt.get("control", ""), names)
    exec("def body():\n" + textwrap.indent(attempt["body"], "    "), names)
    return names["body"]()


SET = {"user": "user", "mount": "mnt", "net": "net", "pid": "pid", "uts": "uts", "ipc": "ipc", "cgroup": "cgroup"}


def trying(attempts: dict) -> dict[str, str]:
    found = {}
    for one in attempts["call"]:
        arguments = one.get("control", one["arguments"]) if CONTROL else one["arguments"]
        found[f"call {one['name']}"] = in_child(lambda: call(one["number"], *map(argument, arguments)))
    for one in attempts["namespace"]:
        name, flag = one["name"], one["flag"]
        found[f"unshare {name}"] = in_child(lambda: call(272, flag))
        if name != "time":  # a flag of `unshare` alone
            found[f"clone {name}"] = in_child(lambda: cloning(flag))
            found[f"setns {name}"] = in_child(lambda: call(308, os.open(f"/proc/1/ns/{SET[name]}", os.O_RDONLY), 0))
    for one in attempts["socket"]:
        kind = one["family"], one.get("type", socket.SOCK_STREAM), one.get("protocol", 0)
        found[f"socket {one['name']}"] = in_child(lambda: socket.socket(*kind) and "ok")
    for one in attempts["write"]:
        found[f"write {one['name']}"] = in_child(lambda: opening(one["name"], os.O_WRONLY))
    for one in attempts["read"]:
        found[f"read {one['name']}"] = in_child(lambda: opening(one["name"], os.O_RDONLY))
    for one in attempts["code"]:
        found[f"code {one['name']}"] = in_child(lambda: running(one))
    return found


def facts() -> dict[str, object]:
    return {
        "file descriptors": sorted(os.listdir("/proc/self/fd"), key=int)[:-1],
        "processes": sorted(int(p) for p in os.listdir("/proc") if p.isdigit()),
        "uid_map": open("/proc/self/uid_map").read().split(),
        "status": dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line),
        "mountinfo": open("/proc/self/mountinfo").read(),
        "cgroup": open("/proc/self/cgroup").read(),
        "unix sockets": [line.split()[-1] for line in open("/proc/net/unix").read().splitlines()[1:] if "@" in line],
        "boot_id": open("/proc/sys/kernel/random/boot_id").read().strip(),
        "hostname": socket.gethostname(),
        "interfaces": sorted(name for _, name in socket.if_nameindex()),
        "core limit": open("/proc/self/limits").read().split("Max core file size")[1].split()[0],
    }


with open(sys.argv[1]) as file:
    table = json.load(file)
print(json.dumps({"facts": facts(), "outcomes": trying(table)}))
