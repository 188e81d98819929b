"""`run_code("1 + 1")` beside a bare Jupyter client in the same sandbox, the first cell of a new sandbox, and the memory of idle sandboxes
of curated templates. Needs E2B_API_URL, E2B_SANDBOX_URL, E2B_API_KEY, the package e2b-code-interpreter, and the templates:
`bench/interpreter.py [ROUNDS] [TEMPLATE…]`."""

import statistics
import sys
import time

from e2b_code_interpreter import Sandbox

# A kernel of its own, as `jupyter_client` starts it; the times of its cells.
BARE = """
import time
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name='python3')
times = []
for _ in range({rounds}):
    begin = time.perf_counter()
    client.execute_interactive('1 + 1', output_hook=lambda message: None, allow_stdin=False)
    times.append(time.perf_counter() - begin)
client.stop_channels(); manager.shutdown_kernel(now=True)
print(sorted(times)[len(times) // 2])
"""


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    creations, firsts = [], []
    for _ in range(10):
        begin = time.perf_counter()
        box = Sandbox.create(timeout=60)
        created = time.perf_counter()
        assert box.run_code("1 + 1").text == "2"
        firsts.append(time.perf_counter() - created)
        creations.append(created - begin)
        box.kill()
    print(f"create, with a kernel that is ready   p50 {milliseconds(statistics.median(creations))}  max {milliseconds(max(creations))}")
    print(f"first run_code of a new sandbox       p50 {milliseconds(statistics.median(firsts))}  max {milliseconds(max(firsts))}")
    box = Sandbox.create(timeout=300)
    try:
        times = []
        for _ in range(rounds):
            begin = time.perf_counter()
            assert box.run_code("1 + 1").text == "2"
            times.append(time.perf_counter() - begin)
        print(f"run_code('1 + 1') by the SDK          p50 {milliseconds(statistics.median(times))}")
        inside = "import json, urllib.request, time\nr = urllib.request.Request('http://127.0.0.1:49999/execute', b'{\"code\": \"1 + 1\"}')\n"
        inside += f"t = []\nfor _ in range({rounds}):\n  b = time.perf_counter(); urllib.request.urlopen(r).read(); t.append(time.perf_counter() - b)\n"
        box.files.write("/tmp/inside.py", inside + "print(sorted(t)[len(t) // 2])")
        box.files.write("/tmp/bare.py", BARE.format(rounds=rounds))
        print(f"the same by HTTP inside the sandbox   p50 {milliseconds(float(box.commands.run('python3 /tmp/inside.py').stdout))}")
        bare = box.commands.run("python3 /tmp/bare.py", user="root").stdout
        print(f"jupyter_client inside the sandbox     p50 {milliseconds(float(bare))}")
    finally:
        box.kill()
    for template in sys.argv[2:] or ["code-interpreter-v1"]:
        box = Sandbox.create(template, timeout=60)
        time.sleep(3)
        used = box.commands.run("awk '/MemTotal/{t=$2} /MemAvailable/{a=$2} END{print t-a}' /proc/meminfo").stdout
        print(f"idle memory of {template}: {int(used) // 1024} MiB")
        box.kill()


if __name__ == "__main__":
    main()
