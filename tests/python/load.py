"""Share of the CPUs used by other programs, so that timing can be asserted on a busy machine."""

import os
from pathlib import Path

from world import instance

TICKS = os.sysconf("SC_CLK_TCK")


class Load:
    """Reports the share of the CPUs that was available to a server and its sandboxes since the last call."""

    def __init__(self, server):
        self.pid = server.pid
        places = list(Path("/sys/fs/cgroup").glob(f"**/cabana-{instance(server.data)}"))
        files = [place / name for place in places for name in ("cpuacct.usage", "cpu.stat")]
        self.usage = next(file for file in files if file.exists() and ("cpuacct" in file.name or file.read_text().startswith("usage_usec")))
        self.last = self.now()

    def now(self) -> tuple[float, float, float]:
        """Seconds of CPU capacity, used by all, and used by the server and its sandboxes."""
        values = [int(value) / TICKS for value in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        idle = values[3] + values[4]
        text = self.usage.read_text()
        inside = int(text) / 1e9 if self.usage.name == "cpuacct.usage" else int(text.split()[1]) / 1e6
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return sum(values), sum(values) - idle, inside + (int(fields[11]) + int(fields[12])) / TICKS

    def left(self) -> float:
        before, self.last = self.last, self.now()
        had, used, own = (later - earlier for earlier, later in zip(before, self.last))
        return 1 - min(1.0, max(0.0, used - own) / had) if had else 1.0
