//! The program that looks at the arguments of `ioctl` and `socket`, written by hand: it refuses each case with the error
//! that a kernel without that feature gives, so that programs try something else.

use rustix::io::Errno;
use seccompiler::{BpfProgram, sock_filter};

/// Offsets in the kernel's `struct seccomp_data`; of arguments the low half, which is all that the kernel uses of these.
const NUMBER: u32 = 0;
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
fn refuse(errno: Errno) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno.raw_os_error().unsigned_abs()
}

fn statement(code: u32, k: u32) -> sock_filter {
    #[allow(clippy::cast_possible_truncation)] // the operations have 8 bits
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn load(offset: u32) -> sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn mask(bits: u32) -> sock_filter {
    statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, bits)
}

fn answer(action: u32) -> sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, action)
}

/// Runs `then` if the loaded value is `value`, otherwise skips it.
fn when(value: u32, then: Vec<sock_filter>) -> Vec<sock_filter> {
    // A part that is too long for one jump would be a mistake in the tables of this file, and fails its test.
    let skip = u8::try_from(then.len()).unwrap_or(u8::MAX);
    #[allow(clippy::cast_possible_truncation)] // as above
    let jump = sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt: 0, jf: skip, k: value };
    [vec![jump], then].concat()
}

fn any(values: &[u32], action: u32) -> Vec<sock_filter> {
    values.iter().flat_map(|value| when(*value, vec![answer(action)])).collect()
}

/// The program. Other calls are allowed: the list of `seccomp.rs` decides them, and the architecture.
pub(super) fn program() -> BpfProgram {
    [
        vec![load(NUMBER)],
        when(number(libc::SYS_ioctl), ioctls()),
        when(number(libc::SYS_socket), sockets()),
        vec![answer(ALLOW)],
    ]
    .concat()
}

fn number(call: i64) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

/// Types of ioctls that are allowed with a few exceptions: terminals, which includes those of every descriptor
/// (`FIONREAD`, `FIOCLEX` …), and sockets.
const IOCTL_TYPES: [u32; 2] = [0x54 << 8, 0x89 << 8];

/// Exceptions: typing on somebody's terminal, the console, and what loads drivers or changes a line.
const REFUSED_IOCTLS: [u32; 6] = [
    0x5412, // TIOCSTI
    0x541c, // TIOCLINUX
    0x541d, // TIOCCONS
    0x541f, // TIOCSSERIAL
    0x5423, // TIOCSETD
    0x5437, // TIOCVHANGUP
];

/// Allowed of other types: cloning and comparing file contents, but no other call of btrfs, which could make subvolumes
/// beyond the quota; and what tools for files ask.
const ALLOWED_IOCTLS: [u32; 10] = [
    0x4004_9409, // FICLONE
    0x4020_940d, // FICLONERANGE
    0xc018_9436, // FIDEDUPERANGE
    0x8008_6601, // FS_IOC_GETFLAGS
    0x4008_6602, // FS_IOC_SETFLAGS
    0xc020_660b, // FS_IOC_FIEMAP
    0x801c_581f, // FS_IOC_FSGETXATTR
    0x8008_7601, // FS_IOC_GETVERSION
    0x0000_0002, // FIGETBSZ
    0x8004_5200, // RNDGETENTCNT
];

fn ioctls() -> Vec<sock_filter> {
    [
        vec![load(argument(1))],
        any(&REFUSED_IOCTLS, refuse(Errno::PERM)),
        any(&ALLOWED_IOCTLS, ALLOW),
        vec![mask(0xff00)],
        any(&IOCTL_TYPES, ALLOW),
        vec![answer(refuse(Errno::NOTTY))],
    ]
    .concat()
}

/// Local sockets of every kind, TCP, UDP, echo requests (`ping`), and netlink for addresses and routes. The rest has no
/// use inside, but code in the kernel: raw sockets, MPTCP, SCTP, DCCP, UDP-Lite, Bluetooth, and so on.
fn sockets() -> Vec<sock_filter> {
    let family = |family: i32| family.unsigned_abs();
    let internet = |echo: i32| {
        let protocols = |protocols: &[i32]| {
            let allowed: Vec<u32> = protocols.iter().map(|protocol| protocol.unsigned_abs()).collect();
            let unknown = answer(refuse(Errno::PROTONOSUPPORT));
            [vec![load(argument(2))], any(&allowed, ALLOW), vec![unknown]].concat()
        };
        [
            // The type, without the flags for close-on-exec and non-blocking.
            vec![load(argument(1)), mask(0xf)],
            when(libc::SOCK_STREAM.unsigned_abs(), protocols(&[0, libc::IPPROTO_TCP])),
            when(libc::SOCK_DGRAM.unsigned_abs(), protocols(&[0, libc::IPPROTO_UDP, echo])),
            when(libc::SOCK_RAW.unsigned_abs(), vec![answer(refuse(Errno::PERM))]),
            vec![answer(refuse(Errno::SOCKTNOSUPPORT))],
        ]
        .concat()
    };
    let routes =
        [vec![load(argument(2))], any(&[libc::NETLINK_ROUTE.unsigned_abs()], ALLOW), vec![answer(unknown_family())]];
    [
        vec![load(argument(0))],
        any(&[family(libc::AF_UNIX)], ALLOW),
        when(family(libc::AF_INET), internet(libc::IPPROTO_ICMP)),
        when(family(libc::AF_INET6), internet(libc::IPPROTO_ICMPV6)),
        when(family(libc::AF_NETLINK), routes.concat()),
        vec![answer(unknown_family())],
    ]
    .concat()
}

/// `sudo` and others then assume a kernel without such sockets, and continue.
fn unknown_family() -> u32 {
    refuse(Errno::AFNOSUPPORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program as the kernel does.
    fn decide(call: i64, arguments: [u64; 3]) -> u32 {
        let program = program();
        let (mut at, mut value) = (0, 0);
        loop {
            let step = &program[at];
            at += 1;
            #[allow(clippy::cast_possible_truncation)]
            match u32::from(step.code) & 0x07 {
                libc::BPF_LD if step.k == NUMBER => value = number(call),
                libc::BPF_LD => value = arguments[((step.k - 16) / 8) as usize] as u32,
                libc::BPF_ALU => value &= step.k,
                libc::BPF_JMP => at += usize::from(if value == step.k { step.jt } else { step.jf }),
                libc::BPF_RET => return step.k,
                other => panic!("operation {other}"),
            }
        }
    }

    fn ioctl(command: u64) -> u32 {
        decide(libc::SYS_ioctl, [3, command, 0])
    }

    fn socket(family: i32, kind: i32, protocol: i32) -> u32 {
        decide(libc::SYS_socket, [family, kind, protocol].map(|n| u64::from(n.unsigned_abs())))
    }

    #[test]
    fn parts_fit_into_one_jump() {
        assert!(ioctls().len() < 255 && sockets().len() < 255);
    }

    #[test]
    fn only_some_ioctls_pass() {
        for command in [libc::TCGETS, libc::TIOCGWINSZ, libc::FIONREAD, libc::FIOCLEX, libc::TIOCGPTN] {
            assert_eq!(ioctl(command), ALLOW);
        }
        assert_eq!(ioctl(libc::FICLONE), ALLOW);
        assert_eq!(ioctl(libc::SIOCGIFCONF), ALLOW);
        assert_eq!(ioctl(libc::TIOCSTI), refuse(Errno::PERM));
        assert_eq!(ioctl(libc::TIOCSTI | 1 << 32), refuse(Errno::PERM), "the kernel ignores the upper half");
        assert_eq!(ioctl(libc::TIOCSETD), refuse(Errno::PERM));
        // BTRFS_IOC_SUBVOL_CREATE, KVM_CREATE_VM, NS_GET_PARENT, UFFDIO_API, FITRIM.
        for command in [0x5000_940e, 0xae01, 0xb702, 0xc018_aa3f, 0xc018_5879] {
            assert_eq!(ioctl(command), refuse(Errno::NOTTY), "{command:x}");
        }
    }

    #[test]
    fn only_some_sockets_pass() {
        use libc::{AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM};
        let allowed = [
            (AF_UNIX, SOCK_STREAM, 0),
            (AF_UNIX, libc::SOCK_SEQPACKET, 0),
            (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
            (AF_INET, SOCK_STREAM, libc::IPPROTO_TCP),
            (AF_INET6, SOCK_DGRAM | libc::SOCK_NONBLOCK, libc::IPPROTO_UDP),
            (AF_INET, SOCK_DGRAM, libc::IPPROTO_ICMP),
            (AF_INET6, SOCK_DGRAM, libc::IPPROTO_ICMPV6),
            (AF_NETLINK, SOCK_RAW, libc::NETLINK_ROUTE),
        ];
        for (family, kind, protocol) in allowed {
            assert_eq!(socket(family, kind, protocol), ALLOW, "{family} {kind} {protocol}");
        }
        let unknown = refuse(Errno::PROTONOSUPPORT);
        assert_eq!(socket(AF_INET, SOCK_STREAM, libc::IPPROTO_MPTCP), unknown);
        assert_eq!(socket(AF_INET6, SOCK_STREAM, libc::IPPROTO_SCTP), unknown);
        assert_eq!(socket(AF_INET, SOCK_DGRAM, libc::IPPROTO_UDPLITE), unknown);
        assert_eq!(socket(AF_INET, SOCK_RAW, libc::IPPROTO_ICMP), refuse(Errno::PERM));
        assert_eq!(socket(AF_INET, libc::SOCK_DCCP, 0), refuse(Errno::SOCKTNOSUPPORT));
        for (family, protocol) in [(AF_NETLINK, libc::NETLINK_NETFILTER), (libc::AF_PACKET, 0), (libc::AF_VSOCK, 0)] {
            assert_eq!(socket(family, SOCK_RAW, protocol), unknown_family(), "{family}");
        }
        assert_eq!(decide(libc::SYS_read, [0; 3]), ALLOW);
    }
}
