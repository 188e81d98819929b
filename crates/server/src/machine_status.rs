//! How large and how busy the machine is, as its kernel says.

use cabana_types::wire::MachineStatus;

/// The state of the machine; `None` if it cannot be read.
pub(crate) fn read() -> Option<MachineStatus> {
    // Files of the kernel that are never large and never block.
    let (memory, load) =
        (std::fs::read_to_string("/proc/meminfo").ok()?, std::fs::read_to_string("/proc/loadavg").ok()?);
    let cpu_count = std::thread::available_parallelism().ok()?.get().try_into().ok()?;
    parse(cpu_count, &memory, &load)
}

fn parse(cpu_count: u32, memory: &str, load: &str) -> Option<MachineStatus> {
    let mib = |name: &str| {
        let line = memory.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? >> 10)
    };
    Some(MachineStatus {
        cpu_count,
        load: load.split_whitespace().next()?.parse().ok()?,
        memory_mb: mib("MemTotal")?,
        memory_available_mb: mib("MemAvailable")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read() {
        let read = parse(
            2,
            "MemTotal:       24661372 kB\nMemFree: 1 kB\nMemAvailable:    9437184 kB\n",
            "1.72 1.37 2.30 1/99 7\n",
        );
        let expected = MachineStatus { cpu_count: 2, load: 1.72, memory_mb: 24083, memory_available_mb: 9216 };
        assert_eq!(read, Some(expected));
        assert_eq!(parse(2, "MemTotal: many kB", "1.72"), None);
        assert!(super::read().is_some_and(|machine| machine.memory_mb >= machine.memory_available_mb));
    }
}
