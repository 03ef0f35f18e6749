"""A game by the protocol of docs/environments-http.md, in plain Python: `python server.py 9000`."""

import json
import random
import sys
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIGITS = [*"0123456789"]
episodes: dict[str, tuple[Generator[object, str], list[object]]] = {}


def play(seed: int, most: int) -> Generator[object, str]:  # from the seed and the actions alone
    rng, told, word = random.Random(seed), "?", ""
    number = rng.choice(DIGITS)
    for _ in range(most):
        said = {"messages": [{"content": told}], "demonstration": rng.choice(DIGITS)}
        word = (yield said).strip()
        if word == number or word not in DIGITS:
            break
        told = ">" if word < number else "<"
    metrics = {"unreadable": float(word not in DIGITS)}
    yield {"reward": float(word == number), "done": True, "metrics": metrics}


class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", -1  # an answer leaves in one piece

    def answer(self, path: list[str], body: Any) -> tuple[int, object]:
        match self.command, path:
            case "GET", [""]:
                return 200, {"protocol": "warren-env/1", "name": "guess", "splits": {"train": None}}
            case "PUT", ["episodes", key]:
                new = play(body["seed"], body["config"].get("guesses", 4))
                return 200, episodes.setdefault(key, (new, [next(new)]))[1][0]
            case "POST", ["episodes", key, "steps"] if key in episodes:
                game, answers = episodes[key]
                if body["turn"] == len(answers):  # one that comes twice is answered as before
                    answers.append(game.send(body["action"]))
                return 200, answers[body["turn"]]
            case "DELETE", ["episodes", key]:
                return 200, {"deleted": episodes.pop(key, None) is not None}
            case _:
                return 404, {"error": "there is no such episode"}

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, said = self.answer(self.path.strip("/").split("/"), json.loads(body or "null"))
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(content := json.dumps(said).encode())))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = handle_any


with ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler) as server:
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
