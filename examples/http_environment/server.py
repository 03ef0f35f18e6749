"""A guessing game as an HTTP environment, in plain Python: `python server.py 9000`.

The protocol is in docs/environments-http.md. Train on it with `warren train examples/http_environment/train.yaml`.
"""

import json
import random
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DESCRIPTION = {"protocol": "warren-env/1", "name": "guess-http", "splits": {"train": None}}


class Episode:
    """Everything follows from the seed and the actions, so a lost episode can be played anew."""

    def __init__(self, body: Any) -> None:
        self.most = int(body["config"].get("guesses", 4))
        self.chance = random.Random(body["seed"])
        self.number = self.chance.randrange(10)
        self.first = self.show("?")
        self.answers: list[object] = []

    def show(self, text: str) -> dict[str, object]:
        guess = str(self.chance.randrange(10))
        return {"messages": [{"role": "user", "content": text}], "demonstration": guess}

    def step(self, turn: int, action: str) -> object:
        """A turn that comes twice is answered as before."""
        if turn == len(self.answers) + 1:
            self.answers.append(self.judge(action.strip(), turn))
        return self.answers[turn - 1]

    def judge(self, word: str, turn: int) -> object:
        is_digit = len(word) == 1 and word in "0123456789"
        if not is_digit or int(word) == self.number or turn == self.most:
            is_right = is_digit and int(word) == self.number
            metrics = {"unreadable": float(not is_digit)}
            return {"reward": float(is_right), "done": True, "metrics": metrics}
        return self.show(">" if int(word) < self.number else "<")


episodes: dict[str, Episode] = {}


def answer(method: str, path: list[str], body: Any) -> tuple[int, object]:
    match method, path:
        case "GET", []:
            return 200, DESCRIPTION
        case "PUT", ["episodes", key]:
            return 200, episodes.setdefault(key, Episode(body)).first
        case "POST", ["episodes", key, "steps"] if key in episodes:
            return 200, episodes[key].step(body["turn"], body["action"])
        case "DELETE", ["episodes", key]:
            episodes.pop(key, None)
            return 200, {}
        case _:
            return 404, {"error": "there is no such episode"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer leaves in one piece

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = [part for part in self.path.split("/") if part]
        status, said = answer(self.command, path, json.loads(body or b"null"))
        content = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = handle_any

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
