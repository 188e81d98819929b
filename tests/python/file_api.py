"""Files of one sandbox over REST, as the console uses them."""

from typing import Any
from urllib.parse import urlencode

from wire import Answer, Client

RAW = {"Content-Type": "application/octet-stream"}


class Files:
    def __init__(self, client: Client, id: str):
        self.client, self.base = client, f"/sandboxes/{id}"

    def ask(self, method: str, path: str, query: dict | None = None, body: Any = None, **headers: str) -> Answer:
        query = f"?{urlencode(query)}" if query else ""
        return self.client.request(method, f"{self.base}{path}{query}", body, headers)

    def listing(self, path: str = "", **query: str) -> dict:
        answer = self.ask("GET", "/files", {"path": path, **query})
        assert answer.status == 200, answer.body
        return answer.json

    def names(self, path: str = "", **query: str) -> list[str]:
        return [entry["name"] for entry in self.listing(path, **query)["entries"]]

    def stat(self, path: str) -> dict:
        answer = self.ask("GET", "/files/stat", {"path": path})
        assert answer.status == 200, answer.body
        return answer.json

    def get(self, path: str, query: dict | None = None, **headers: str) -> Answer:
        return self.ask("GET", "/files/content", {"path": path, **(query or {})}, None, **headers)

    def put(self, path: str, content: bytes, **headers: str) -> Answer:
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("PUT", "/files/content", {"path": path}, content, **RAW, **headers)

    def written(self, path: str, content: bytes, **headers: str) -> dict:
        answer = self.put(path, content, **headers)
        assert answer.status == 200, answer.body
        return answer.json

    def delete(self, path: str, **query: str) -> Answer:
        return self.ask("DELETE", "/files", {"path": path, **query})

    def move(self, source: str, target: str) -> Answer:
        return self.ask("POST", "/files/move", None, {"from": source, "to": target})

    def make(self, path: str) -> Answer:
        return self.ask("POST", "/files/directories", None, {"path": path})

    def sqlite(self, path: str, sql: str, *params: Any, **fields: Any) -> Answer:
        return self.ask("POST", "/sqlite", None, {"path": path, "sql": sql, "params": list(params), **fields})


def refused(answer: Answer, status: int, code: str) -> str:
    """The message of an error."""
    assert (answer.status, answer.json.get("error_code")) == (status, code), (answer.status, answer.body)
    assert answer.json["code"] == status
    return answer.json["message"]
