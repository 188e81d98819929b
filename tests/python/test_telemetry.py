"""What Prometheus scrapes: GET /metrics in its text format, for operators only."""

import re

from wire import Client

SAMPLE = re.compile(r'^(cabana_[a-z_]+)(\{[^{}]*(?:\{\w+\}[^{}]*)*\})? (\S+)$')


def scrape(api) -> dict[str, float]:
    answer = api.request("GET", "/metrics")
    assert answer.status == 200 and answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0"), answer
    lines = answer.body.decode().splitlines()
    assert lines[-1] == "# EOF"
    samples = {}
    for line in lines:
        if not line.startswith("#"):
            name, labels, value = SAMPLE.match(line).groups()
            samples[name + (labels or "")] = float(value)
    return samples


def test_what_is_measured(api, boxes):
    before = scrape(api)
    box = boxes()
    api.run(box, "true")
    after = scrape(api)
    for phase in ("admit", "launch", "ready", "commit", "total"):
        name = f'cabana_creation_seconds_count{{phase="{phase}"}}'
        assert after[name] >= before.get(name, 0) + 1, name
    assert after['cabana_sandboxes{state="running"}'] >= 1
    created = 'cabana_request_seconds_count{method="POST",route="/v2/sandboxes",status="2xx"}'
    assert after[created] >= before.get(created, 0) + 1
    assert after["cabana_process_resident_memory_bytes"] > 2**20 and after["cabana_process_open_fds"] > 5
    assert after["cabana_process_cpu_seconds"] >= before["cabana_process_cpu_seconds"]
    assert 0 < after["cabana_sandboxes_limit"] and after["cabana_disk_free_mb"] > 0


def test_routes_are_patterns(api):
    """Whoever asks for many paths adds no series."""
    for number in range(20):
        api.request("GET", f"/sandboxes/i{number:019}")
        api.request("GET", f"/nothing/{number}")
    routes = set(re.findall(r'route="([^"]*)"', api.request("GET", "/metrics").body.decode()))
    assert "/sandboxes/{sandboxID}" in routes
    assert not any("0000" in route or "nothing" in route for route in routes)


def test_only_operators(api, server):
    made = api.request("POST", "/api-keys", {"name": "no operator"}).json
    client = Client(server.url, made["key"])
    try:
        answer = client.request("GET", "/metrics")
        assert (answer.status, answer.json["error_code"]) == (403, "forbidden")
    finally:
        assert api.request("DELETE", f"/api-keys/{made['id']}").status == 204
        client.close()
