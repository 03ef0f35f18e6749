"""A program for the fork server of a foreign package: it does what it is asked to."""

import math
import os
import sys
from typing import Any

TOLD: dict[str, dict[str, Any]] = {
    "well": {"shown": "well"},
    "not finite": {"shown": "", "reward": math.nan},
    "half a pair": {"shown": "\ud800"},
    "no JSON": {"shown": b""},
    "long": {"shown": "x" * (5 << 20)},
}


class Episode:
    def make(self, trouble: str = "") -> None:
        self.trouble = trouble
        if trouble == "make":
            raise ValueError("no such game")

    def begin(self) -> dict[str, Any]:
        if self.trouble == "begin":
            raise ValueError("no luck")
        return {"shown": "begun"}

    def step(self, words: str) -> dict[str, Any]:
        if words == "die":
            os._exit(1)
        if words == "order":
            return {"shown": list({"a", "b", "c", "d", "e", "f", "g", "h"}), "path": sys.path}
        if words.startswith("/"):
            open(words, "w").close()
            return {}
        return TOLD[words]
