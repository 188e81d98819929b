"""Runs inside a sandbox, as user or as root, and tries to escape. Prints one JSON object with the result of each attempt.

`--control` runs the same attempts on the host, as root in scratch namespaces, where they must succeed: an attempt that fails there
too proves nothing about the sandbox. Every attempt then has its own namespaces and /tmp, devices are only looked up, and calls that would
change the machine have other arguments (CONTROL_CALLS)."""

import ctypes
import ctypes.util
import errno
import json
import mmap
import os
import signal
import socket
import struct
import sys

CONTROL = "--control" in sys.argv
libc = ctypes.CDLL(None, use_errno=True)
found: dict[str, object] = {}


def name_of(number: int) -> str:
    return errno.errorcode.get(number, str(number))


def call(number: int, *arguments) -> str:
    """The error of a system call, or `ok`."""
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    return "ok" if result >= 0 else name_of(ctypes.get_errno())


def in_child(attempt) -> str:
    """Runs an attempt in a child, because it may end or change the process."""
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


NULL = ctypes.c_void_p(0)
TEXT = ctypes.c_char_p(b"/tmp/x")
CALLS = {
    "bpf": (321, 0, NULL, 0),
    "userfaultfd": (323, 0),
    "io_uring_setup": (425, 1, ctypes.create_string_buffer(256)),
    "perf_event_open": (298, ctypes.create_string_buffer(struct.pack("II", 1, 128) + bytes(128)), 0, -1, -1, 0),
    "kexec_load": (246, 0, 0, NULL, 0),
    "init_module": (175, NULL, 0, TEXT),
    "finit_module": (313, -1, TEXT, 0),
    "delete_module": (176, TEXT, 0),
    "open_by_handle_at": (304, -100, ctypes.create_string_buffer(struct.pack("Ii", 8, 1) + bytes(8)), 0),
    "mount": (165, ctypes.c_char_p(b"none"), ctypes.c_char_p(b"/tmp"), ctypes.c_char_p(b"tmpfs"), 0, NULL),
    "umount2": (166, ctypes.c_char_p(b"/proc"), 2),
    "pivot_root": (155, ctypes.c_char_p(b"/"), ctypes.c_char_p(b"/tmp")),
    "fsopen": (430, ctypes.c_char_p(b"tmpfs"), 0),
    "open_tree": (428, -100, ctypes.c_char_p(b"/"), 1),
    "move_mount": (429, -100, TEXT, -100, TEXT, 0),
    "mount_setattr": (442, -100, ctypes.c_char_p(b"/proc"), 0, ctypes.create_string_buffer(32), 32),
    "swapon": (167, TEXT, 0),
    "reboot": (169, 0xFEE1DEAD, 672274793, 0, NULL),
    "acct": (163, TEXT),
    "iopl": (172, 3),
    "ioperm": (173, 0, 1, 1),
    "clock_settime": (227, 0, ctypes.create_string_buffer(struct.pack("qq", 1, 0))),
    "settimeofday": (164, ctypes.create_string_buffer(struct.pack("qq", 1, 0)), NULL),
    "adjtimex": (159, ctypes.create_string_buffer(struct.pack("I", 1) + bytes(300))),
    "syslog": (103, 3, ctypes.create_string_buffer(64), 64),
    "kcmp": (312, 1, 1, 0, 0, 0),
    "pidfd_getfd": (438, 0, 0, 0),
    "quotactl": (179, 0x800001, NULL, 0, NULL),
    "keyctl": (250, 0, -3, 1),
    "add_key": (248, ctypes.c_char_p(b"user"), TEXT, TEXT, 1, -3),
    "request_key": (249, ctypes.c_char_p(b"user"), TEXT, NULL, -3),
    "lookup_dcookie": (212, 0, TEXT, 6),
    "name_clone3": (435, ctypes.create_string_buffer(88), 88),
    "sethostname": (170, TEXT, 6),
    "setdomainname": (171, TEXT, 6),
    "vhangup": (153,),
    "nfsservctl": (180,),
    "move_pages": (279, 1, 0, NULL, NULL, NULL, 0),
    "fanotify_init": (300, 0, 0),
    "landlock_free_call": (470, 0),
}
# The same calls with arguments that the kernel refuses after checking the caller, or that change nothing.
CONTROL_CALLS = {
    "kexec_load": (246, 0, 0, NULL, 0xFF),
    "clock_settime": (227, 0, ctypes.create_string_buffer(struct.pack("qq", 1, 10**10))),
    "settimeofday": (164, ctypes.create_string_buffer(struct.pack("qq", 1, 10**10)), NULL),
    "adjtimex": (159, ctypes.create_string_buffer(304)),
    "name_clone3": (435, ctypes.create_string_buffer(88), 0),
}
for name, arguments in (CALLS | (CONTROL_CALLS if CONTROL else {})).items():
    found[f"call {name}"] = in_child(lambda: call(*arguments))

CLONE = {
    "user": 0x10000000,
    "mount": 0x20000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "uts": 0x4000000,
    "ipc": 0x8000000,
    "cgroup": 0x2000000,
    "time": 0x80,
}
for name, flag in CLONE.items():
    found[f"unshare {name}"] = in_child(lambda: call(272, flag))
for name in ("user", "mnt", "net", "pid", "uts", "ipc", "cgroup"):
    found[f"setns {name}"] = in_child(lambda: call(308, os.open(f"/proc/1/ns/{name}", os.O_RDONLY), 0))

FAMILIES = {
    "alg": 38,
    "vsock": 40,
    "packet": 17,
    "xdp": 44,
    "tipc": 30,
    "rds": 21,
    "rxrpc": 33,
    "smc": 43,
    "key": 15,
    "can": 29,
    "bluetooth": 31,
    "ax25": 3,
    "llc": 26,
    "qipcrtr": 42,
    "nfc": 39,
}
for name, number in FAMILIES.items():
    found[f"socket {name}"] = in_child(
        lambda: socket.socket(number, socket.SOCK_RAW if number in (17, 3) else socket.SOCK_STREAM, 0) and "ok"
    )
for name, number in {
    "netfilter": 12,
    "audit": 9,
    "xfrm": 6,
    "connector": 11,
    "kobject": 15,
    "generic": 16,
    "crypto": 21,
}.items():
    found[f"netlink {name}"] = in_child(lambda: socket.socket(16, socket.SOCK_RAW, number) and "ok")


def foreign_32_bit() -> str:
    """getpid by `int 0x80`."""
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    return "ok" if result > 0 else name_of(-result)


found["abi 32-bit"] = in_child(foreign_32_bit)
found["abi x32"] = in_child(lambda: call(0x40000000 + 39))


def opening(path: str, flags: int) -> str:
    def attempt() -> str:
        if CONTROL and path.startswith("/dev/"):
            os.close(os.open(path, os.O_PATH))
            return "ok"
        handle = os.open(path, flags | os.O_NONBLOCK)
        if CONTROL:
            return "ok"
        if flags & os.O_WRONLY:
            return "ok"
        return "empty" if not os.read(handle, 64) else "ok"

    return in_child(attempt)


for path in (
    "/proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/kernel/hotplug /proc/sys/fs/binfmt_misc/register /proc/sysrq-trigger"
    " /sys/kernel/uevent_helper /proc/sys/vm/overcommit_memory /proc/sys/kernel/pid_max /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/hostname"
    " /proc/irq/0/smp_affinity /proc/bus/pci/00/00.0 /sys/fs/cgroup/release_agent /sys/fs/cgroup/memory/release_agent"
    " /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory/cgroup.procs /sys/fs/cgroup/pids/cgroup.procs /sys/fs/cgroup/memory.max"
    " /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/cgroup.kill /sys/fs/cgroup/unified/cgroup.procs /proc/1/mem"
).split():
    found[f"write {path}"] = opening(path, os.O_WRONLY)
for path in (
    "/proc/kcore /proc/kmsg /proc/kallsyms /proc/keys /proc/key-users /proc/timer_list /proc/kpagecount /proc/kpageflags /proc/sched_debug"
    " /sys/class/dmi/id/product_uuid /sys/firmware/dmi/tables/DMI /proc/1/mem /proc/1/environ /proc/1/auxv /proc/1/maps"
    " /dev/mem /dev/kmem /dev/port /dev/kvm /dev/fuse /dev/net/tun /dev/vhost-net /dev/vhost-vsock /dev/loop-control /dev/loop0"
    " /dev/mapper/control /dev/vda /dev/sda /dev/kmsg /dev/snapshot /dev/rtc0 /dev/btrfs-control /sys/kernel/debug /sys/kernel/security"
).split():
    found[f"read {path}"] = opening(path, os.O_RDONLY)


def make_device() -> str:
    number = os.makedev(254, 0)
    if CONTROL:
        disk = sorted(os.listdir("/sys/block"))[0]
        number = os.makedev(*map(int, open(f"/sys/block/{disk}/dev").read().split(":")))
    os.mknod("/tmp/disk", 0o600 | 0o060000, number)
    os.close(os.open("/tmp/disk", os.O_RDONLY))
    return "ok"


found["mknod and open"] = in_child(make_device)
found["ptrace 1"] = in_child(lambda: call(101, 0x4206, 1, 0, 0))
buffer = ctypes.create_string_buffer(16)
vector = struct.pack("QQ", ctypes.addressof(buffer), 16)
found["process_vm_readv 1"] = in_child(lambda: call(310, 1, vector, 1, struct.pack("QQ", 0x400000, 16), 1, 0))


def push_input() -> str:
    import fcntl
    import pty

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, 0x5412, b"x")
    return "ok"


found["TIOCSTI"] = in_child(push_input)
found["file descriptors"] = sorted(os.listdir("/proc/self/fd"), key=int)[:-1]
found["processes"] = sorted(int(p) for p in os.listdir("/proc") if p.isdigit())
found["uid_map"] = open("/proc/self/uid_map").read().split()
found["status"] = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
found["mountinfo"] = open("/proc/self/mountinfo").read()
found["cgroup"] = open("/proc/self/cgroup").read()
found["unix sockets"] = [line.split()[-1] for line in open("/proc/net/unix").read().splitlines()[1:] if "@" in line]
found["boot_id"] = open("/proc/sys/kernel/random/boot_id").read().strip()
found["hostname"] = socket.gethostname()
found["root"] = (
    sorted(os.listdir("/proc/1/root/..")) == sorted(os.listdir("/")) if os.access("/proc/1/root/.", os.R_OK) else True
)
found["interfaces"] = sorted(name for _, name in socket.if_nameindex())
found["core limit"] = open("/proc/self/limits").read().split("Max core file size")[1].split()[0]
print(json.dumps(found))
