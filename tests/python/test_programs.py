"""Programs that people run work inside: each is used, not only started. What the base template lacks is installed once, in one template; its
steps are cached in the data directory. A stricter system call filter or `/proc` must keep these passing."""

import re

import pytest

from building import Builder, context

# `chromium-headless-shell` and `-jre-headless` are a third of the full packages.
PACKAGES = "chromium-headless-shell gdb golang-1.19-go openjdk-17-jre-headless postgresql-15 redis-server strace"
# The package lists stay, for the test of `apt`. Postgres would make a cluster of its own.
DOCKERFILE = f"""FROM base
RUN mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf \\
 && apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Options::=--force-unsafe-io install -y -q --no-install-recommends {PACKAGES} \\
 && apt-get clean
"""

C = r"""cat > work.c <<'X'
#include <pthread.h>
#include <stdio.h>
static void *twice(void *at) { int *number = at; *number *= 2; return at; }
int main(void) { int number = 21; pthread_t thread; pthread_create(&thread, 0, twice, &number); pthread_join(thread, 0); printf("%d\n", number); }
X
gcc -g -O0 -pthread -o work work.c
"""

GO = r"""cat > work.go <<'X'
package main
import ("fmt"; "net"; "runtime")
func main() {
  listener, problem := net.Listen("tcp", "127.0.0.1:0")
  if problem != nil { panic(problem) }
  go func() { peer, _ := listener.Accept(); fmt.Fprint(peer, "42"); peer.Close() }()
  peer, problem := net.Dial("tcp", listener.Addr().String())
  if problem != nil { panic(problem) }
  said := make([]byte, 8)
  count, _ := peer.Read(said)
  fmt.Println(string(said[:count]), runtime.NumGoroutine() > 0)
}
X
GOFLAGS=-mod=mod CGO_ENABLED=0 /usr/lib/go-1.19/bin/go run work.go"""

NODE = r"""cat > work.js <<'X'
const { Worker, isMainThread, parentPort } = require("worker_threads");
if (isMainThread) new Worker(__filename).on("message", (said) => console.log(said));
else parentPort.postMessage(require("zlib").gunzipSync(require("zlib").gzipSync("42")).toString());
X
node work.js"""

POSTGRES = r"""export PATH=$PATH:/usr/lib/postgresql/15/bin
initdb -D data --no-sync >/dev/null
pg_ctl -D data -w -l log -o "-k $PWD -c listen_addresses=" start >/dev/null
psql -h $PWD -d postgres -Atc "create table t as select generate_series(1, 1000) as n; select count(*), max(n) from t"
pg_ctl -D data -w -m fast stop >/dev/null"""

REDIS = r"""redis-server --port 0 --unixsocket $PWD/socket --daemonize yes --logfile $PWD/log --dir $PWD >/dev/null
until redis-cli -s socket ping 2>/dev/null; do sleep 0.05; done
redis-cli -s socket set answer 42
redis-cli -s socket bgsave
until redis-cli -s socket info persistence | grep -q rdb_bgsave_in_progress:0; do sleep 0.05; done
redis-cli -s socket info persistence | grep -o rdb_last_bgsave_status:ok
redis-cli -s socket get answer
redis-cli -s socket shutdown nosave"""

# Commands in an empty directory as the ordinary user, and what they print, as a pattern.
PROGRAMS = {
    "apt": ("sudo apt-get install -y -q --no-install-recommends bc >log 2>&1 && echo 6*7 | bc", "42"),
    "pip": (
        "pip install --quiet --no-cache-dir --target here six==1.17.0 && PYTHONPATH=here python3 -c 'import six; print(six.__version__)'",
        r"1\.17\.0",
    ),
    "npm": ("npm install --no-audit --no-fund --loglevel=error ms@2.1.3 >log && node -p 'require(\"ms\")(\"1m\")'", "60000"),
    "gcc": (C + "./work", "42"),
    "gdb": (C + "gdb -q -batch -ex 'break twice' -ex run -ex 'print *(int *) at' -ex continue ./work", r".*\$1 = 21.*42.*"),
    "strace": ("strace -f -o trace sh -c 'cat /etc/hostname >/dev/null; true' && grep -c hostname trace", r"[1-9]\d*"),
    "git": (
        "git init -q -b main a && cd a && git config user.email a@b && git config user.name n && echo 42 > file && git add . && git commit -qm one"
        " && git gc -q && cd .. && git clone -q a b && cat b/file",
        "42",
    ),
    "sudo": ("sudo -n id -u; sudo -n -u nobody id -un", "0\nnobody"),
    "sqlite": ("sqlite3 file.db 'pragma journal_mode=wal; create table t(n); insert into t values (42); select n from t'", "wal\n42"),
    "node": (NODE, "42"),
    "java": (
        "keytool -genkeypair -alias key -keyalg EC -dname CN=test -storepass changeit -keystore store 2>&1 && keytool -list -storepass changeit -keystore store",
        r".*contains 1 entry.*PrivateKeyEntry.*",
    ),
    "go": (GO, "42 true"),
    "chromium": (
        "chromium-headless-shell --no-sandbox --disable-gpu --dump-dom 'data:text/html,<p id=x></p><script>x.textContent=6*7</script>' 2>log",
        r'.*<p id="x">42</p>.*',
    ),
    "postgres": (POSTGRES, r".*1000\|1000"),
    "redis": (REDIS, r"PONG\nOK\n.*rdb_last_bgsave_status:ok\n42"),
}


@pytest.fixture(scope="module")
def equipped(server, resolver, tmp_path_factory):
    """A sandbox with the programs, in which names of package registries are resolved."""
    builder = Builder(server)
    try:
        with resolver.passing_on():
            name = builder.name("programs")
            done = builder.attempt(context(tmp_path_factory.mktemp("programs"), Dockerfile=DOCKERFILE), name, within=600)
            assert done.code == 0, done.out + done.err
            yield builder.sandbox(name, timeout=600)
    finally:
        builder.close()


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program, equipped):
    script, expected = PROGRAMS[program]
    place = f"/home/user/{program}"
    done = equipped.commands.run(f"mkdir {place} && cd {place}\nset -e\n{script} || {{ cat log; exit 1; }}", user="user", timeout=120)
    assert re.fullmatch(expected, done.stdout.strip(), re.S), done.stdout
