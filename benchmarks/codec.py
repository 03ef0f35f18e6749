"""What it costs to write and read trajectories: `python -m benchmarks.codec`.

The wire codec against plain JSON lists, in one run on the same items: one trajectory of 2,000
tokens, and 64 trajectories of 10 tokens in one message. Every figure is CPU microseconds for one
item, the best of many rounds. "JSON lists" parses and makes arrays and checks nothing, which is
less than the codec does; "JSON lists, validated" checks the same things as the codec.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table
from tests.support.factories import make_episode_ended, make_tokens, make_transcript

from warren_schemas.codec.wire import decode, encode
from warren_schemas.episode import EpisodeEnded

ROUNDS = 40
ROUND_S = 0.02
ADAPTER = TypeAdapter(list[EpisodeEnded])
DTYPES = {"ids_T": np.int32, "mask_T": np.uint8, "logprobs_T": np.float32, "versions_T": np.int32}


@dataclass(frozen=True)
class Codec:
    name: str
    write: Callable[[Sequence[EpisodeEnded]], bytes]
    read: Callable[[bytes], object]


@dataclass(frozen=True)
class Figures:
    size_bytes: float
    write_us: float
    read_us: float


def trajectories(n_items: int, n_tokens: int) -> list[EpisodeEnded]:
    """Items as they come from a run: token ids of a large vocabulary, logprobs of full precision."""
    random = np.random.default_rng(0)
    tokens = make_tokens(
        n_tokens,
        ids_T=random.integers(0, 150_000, n_tokens).astype(np.int32),
        logprobs_T=-random.exponential(size=n_tokens).astype(np.float32),
    )
    return [make_episode_ended(transcript=make_transcript(tokens=tokens)) for _ in range(n_items)]


def write_lists(items: Sequence[EpisodeEnded]) -> bytes:
    def plain(value: Any) -> object:
        return value.tolist() if isinstance(value, np.ndarray) else value.__dict__

    return orjson.dumps(items, default=plain)


def read_lists(body: bytes) -> object:
    items = orjson.loads(body)
    for item in items:
        tokens = item["transcript"]["tokens"]
        for name, dtype in DTYPES.items():
            tokens[name] = np.array(tokens[name], dtype)
    return items


CODECS = (
    Codec("Warren's wire codec", encode, decode),
    Codec("JSON lists", write_lists, read_lists),
    Codec("JSON lists, validated", write_lists, ADAPTER.validate_json),
)


def measure(codec: Codec, items: Sequence[EpisodeEnded]) -> Figures:
    body = codec.write(items)
    return Figures(
        size_bytes=len(body) / len(items),
        write_us=best_us(lambda: codec.write(items)) / len(items),
        read_us=best_us(lambda: codec.read(body)) / len(items),
    )


def best_us(call: Callable[[], object]) -> float:
    """CPU time of one call in the best of the rounds."""
    n_calls = max(1, int(ROUND_S / max(timed_s(call, 3), 1e-9)))
    return min(timed_s(call, n_calls) for _ in range(ROUNDS)) * 1e6


def timed_s(call: Callable[[], object], n_calls: int) -> float:
    start_s = time.process_time()
    for _ in range(n_calls):
        call()
    return (time.process_time() - start_s) / n_calls


def main() -> None:
    console = Console()
    for n_items, n_tokens in ((1, 2000), (64, 10)):
        title = f"{n_items} x {n_tokens:,} tokens, each item"
        table = Table("", "bytes", "write us", "read us", title=title, title_justify="left")
        items = trajectories(n_items, n_tokens)
        for codec in CODECS:
            figures = measure(codec, items)
            table.add_row(
                codec.name,
                f"{figures.size_bytes:,.0f}",
                f"{figures.write_us:.1f}",
                f"{figures.read_us:.1f}",
            )
        console.print(table)


if __name__ == "__main__":
    main()
