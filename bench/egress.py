#!/usr/bin/env python3
"""Times the creation of sandboxes with an egress policy of 1000 entries through a running server, compared with the open policy in the
same run, and a live change of the policy. Equal policies of several sandboxes are held once, also for a while after the last of them;
`unique` ones are not. What a policy adds to a connection is timed by `cargo run --release -p cabana-net --example egress`.

usage: bench/egress.py [--count N] [--url URL] [--key KEY]
"""

from measure import WARM_UP, Times, client, options

OPEN = "create, open policy"

EVERYTHING = ["0.0.0.0/0"]
ADDRESSES = [f"8.{n // 250}.{n % 250}.8" for n in range(1000)]
NETWORKS = [f"8.{n // 250}.{n % 250}.0/25" for n in range(1000)]
NAMES = [f"host{n}.example.com" for n in range(1000)]

POLICIES = {
    OPEN: None,
    "create, 1000 addresses allowed": {"allowOut": ADDRESSES, "denyOut": EVERYTHING},
    "create, 1000 networks allowed": {"allowOut": NETWORKS, "denyOut": EVERYTHING},
    "create, 1000 networks denied": {"denyOut": NETWORKS},
    "create, 1000 names allowed": {"allowOut": NAMES, "denyOut": EVERYTHING},
}


def own(number: int) -> dict[str, dict]:
    """Policies that no other sandbox has."""
    return {
        "create, 1000 networks denied, unique": {"denyOut": [f"9.{number % 250}.{number // 250}.128/25", *NETWORKS[1:]]},
        "create, 1000 names allowed, unique": {"allowOut": [f"own{number}.example.com", *NAMES[1:]], "denyOut": EVERYTHING},
    }


def main():
    chosen = options(__doc__, "rounds", 40)
    server, times = client(chosen), Times()
    for number in range(chosen.count + WARM_UP):
        counts = number >= WARM_UP
        # Side by side, so that other load of the machine meets all alike.
        for name, policy in {**POLICIES, **own(number)}.items():
            fields = {} if policy is None else {"network": policy}
            with times.take(name, counts):
                box = server.create(**fields)
            try:
                if policy is None:
                    with times.take("change to 1000 addresses", counts):
                        answer = server.request("PUT", f"/sandboxes/{box.id}/network", POLICIES["create, 1000 addresses allowed"])
                    assert answer.status < 300, (answer.status, answer.body)
            finally:
                server.kill(box)
    times.show(f"{chosen.count} rounds, milliseconds", {name: OPEN for name in times.all if name.startswith("create") and name != OPEN})


if __name__ == "__main__":
    main()
