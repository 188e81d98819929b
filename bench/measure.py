"""Common parts of the benchmarks: client, timing, output."""

import argparse
import os
import pathlib
import statistics
import sys
import time
from contextlib import contextmanager

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "python"))
from wire import Client  # noqa: E402

# Warm-up runs that are not counted.
WARM_UP = 3


def options(description: str, what: str, count: int, more=lambda parser: None) -> argparse.Namespace:
    """`more` adds a benchmark's own options."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=count, help=f"{what} to measure (default {count}, at most 10000)")
    parser.add_argument("--url", default=os.environ.get("E2B_API_URL", "http://127.0.0.1:3000"))
    parser.add_argument("--key", default=os.environ.get("E2B_API_KEY"))
    more(parser)
    found = parser.parse_args()
    found.count = max(1, min(found.count, 10_000))
    found.key = found.key or pathlib.Path("/var/lib/cabana/key").read_text().strip()
    return found


def client(chosen: argparse.Namespace) -> Client:
    return Client(chosen.url, chosen.key)


class Times:
    """Durations by name, in order of first use."""

    def __init__(self):
        self.all: dict[str, list[float]] = {}

    @contextmanager
    def take(self, name: str, counts: bool = True):
        begin = time.perf_counter()
        yield
        if counts:
            self.all.setdefault(name, []).append(time.perf_counter() - begin)

    def add(self, name: str, seconds: float) -> None:
        self.all.setdefault(name, []).append(seconds)

    def show(self, title: str, against: dict[str, str]) -> None:
        """Prints a table. `against` maps a row to its baseline."""
        print(f"{title:48}{'p50':>10}{'p99':>10}")
        for name, values in self.all.items():
            middle = statistics.median(values)
            floor = self.all.get(against.get(name, ""))
            ratio = f"    {middle / statistics.median(floor):.2f}× {against[name]}" if floor else ""
            print(f"{name:48}{middle * 1e3:10.2f}{quantile(values, 0.99) * 1e3:10.2f}{ratio}")


def quantile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round((len(ordered) - 1) * part))]
