"""Lifecycle operations over the wire, with a new connection for each request because the server may have been restarted."""

import shlex
import time
from urllib.parse import quote

from server import Server
from waiting import eventually
from wire import Answer, Box, StreamError

# Errors that a client sees when the server dies during its request.
GONE = (OSError, StreamError, EOFError)
HOME = "/home/user/kept"


class Refused(Exception):
    """An unexpected status."""

    def __init__(self, answer: Answer):
        super().__init__(f"{answer.status} {answer.body[:400].decode(errors='replace')}")
        self.status = answer.status


class Life:
    """A client of one server."""

    def __init__(self, server: Server, timeout: float = 30.0):
        self.server, self.timeout = server, timeout

    def ask(self, method: str, path: str, body=None, wanted: tuple[int, ...] = (200, 201, 204)) -> Answer:
        client = self.server.client(self.timeout)
        try:
            answer = client.request(method, path, body)
        except EOFError as error:
            raise OSError(str(error)) from error
        except Exception as error:  # http.client has its own exceptions for broken connections
            raise OSError(repr(error)) from error
        finally:
            client.close()
        if answer.status not in wanted:
            raise Refused(answer)
        return answer

    def create(self, template: str = "base", **fields) -> Box:
        answer = self.ask("POST", "/v2/sandboxes", {"templateID": template, "timeout": 600, **fields}).json
        return Box(answer["sandboxID"], answer["envdAccessToken"])

    def kill(self, box: Box | str) -> None:
        self.ask("DELETE", f"/sandboxes/{getattr(box, 'id', box)}", wanted=(204, 404))

    def pause(self, box: Box, memory: bool = True) -> None:
        self.ask("POST", f"/sandboxes/{box.id}/pause", {"memory": memory})

    def connect(self, box: Box) -> None:
        self.ask("POST", f"/v2/sandboxes/{box.id}/connect", {"timeout": 600})

    def recover(self, box: Box) -> None:
        self.ask("POST", f"/sandboxes/{box.id}/recover")

    def archive(self, box: Box, **fields) -> None:
        self.ask("POST", f"/sandboxes/{box.id}/archive", fields)

    def expire(self, box: Box) -> None:
        self.ask("POST", f"/sandboxes/{box.id}/timeout", {"timeout": 0})

    def fork(self, box: Box, count: int = 1) -> list[Box]:
        made = self.ask("POST", f"/sandboxes/{box.id}/fork", {"count": count, "timeout": 600}).json
        assert all(row.get("sandbox") for row in made), made
        return [Box(row["sandbox"]["sandboxID"], row["sandbox"]["envdAccessToken"]) for row in made]

    def commit(self, box: Box, name: str) -> str:
        return self.ask("POST", f"/sandboxes/{box.id}/commit", {"alias": name}).json["templateID"]

    def snapshot(self, box: Box) -> str:
        return self.ask("POST", f"/sandboxes/{box.id}/snapshots", {}).json["snapshotID"]

    def snapshots(self) -> set[str]:
        return {row["snapshotID"] for row in self.ask("GET", "/snapshots").json}

    def forget(self, snapshot: str) -> None:
        self.ask("DELETE", f"/templates/{quote(snapshot, safe='')}", wanted=(204, 404))

    def phase(self, box: Box) -> str:
        return self.ask("GET", f"/sandboxes/{box.id}").json["phase"]

    def listed(self) -> set[str]:
        client = self.server.client(self.timeout)
        try:
            return {row["sandboxID"] for row in client.sandboxes("&state=running,paused,failed")}
        finally:
            client.close()

    # Inside

    def run(self, box: Box, command: str) -> str:
        client = self.server.client(self.timeout)
        try:
            code, output = client.run(box, command)
        except StreamError:
            raise
        except Exception as error:
            raise OSError(repr(error)) from error
        finally:
            client.close()
        assert code == 0, (command, code, output)
        return output

    def write(self, box: Box, name: str, content: str) -> None:
        self.run(box, f"mkdir -p {HOME} && printf %s {shlex.quote(content)} > {HOME}/{shlex.quote(name)}")

    def remove(self, box: Box, name: str) -> None:
        self.run(box, f"rm -f {HOME}/{shlex.quote(name)}")

    def files(self, box: Box) -> dict[str, str]:
        """Every file that was written, with its content."""
        output = self.run(box, f"cd {HOME} 2>/dev/null || exit 0; for f in *; do [ -f \"$f\" ] && echo \"$f=$(cat $f)\"; done; true")
        return dict(line.split("=", 1) for line in output.splitlines())

    def boot(self, box: Box) -> str:
        return self.run(box, "cat /proc/sys/kernel/random/boot_id")

    # The whole server

    def assert_whole(self, within: float = 10.0) -> float:
        """Waits until the machine matches the store, and archives match archived sandboxes. Returns how long it took."""
        started, last = time.monotonic(), []

        def same() -> bool:
            last[:] = self.ask("GET", "/status/check").json["differences"]
            return not last

        try:
            eventually(same, within, every=0.05)
        except AssertionError as error:
            raise AssertionError(f"after {within} s still different: {last or error}\n{self.server.log_tail()}") from None
        return time.monotonic() - started

    def archives(self) -> set[str]:
        """Sandboxes with objects in cold storage."""
        place = self.server.data / "archive"
        return {path.name[:21] for path in place.rglob("*") if path.is_file()} if place.exists() else set()
