"""A sampler's child that samples nothing: it waits as long as a turn would take, and makes up tokens.

Every sampled token id is drawn at random, so that each turn ever sampled can be told from all others,
and so can what it was shown, except before an episode's first action.
It says `good` once the file `good` lies in `WARREN_HOME`: rewards rise, and runs can end.
"""

import hashlib
import heapq
import os
import queue
import secrets
import sys
import threading
import time
from pathlib import Path

import numpy as np

from warren_broker.worker.channel import Channel
from warren_gpu_worker.sampler.engines.port import EngineStatistics, Refusal
from warren_gpu_worker.sampler.messages import (
    FinishedTurn,
    Orders,
    Ready,
    Report,
    TurnRequest,
    pack,
    unpack_orders,
)
from warren_schemas.episode import FinishReason

STATISTICS = EngineStatistics(0, 0, 0, 0, 0, 0)
N_TOKENS = 4
TURN_S = float(os.environ.get("CHAOS_TURN_S", "0.3"))
LARGEST_ID = 2**31 - 1
DIGEST_BYTES = 12


class SimulatedSampler:
    def __init__(self, home: Path) -> None:
        self._good = home / "good"
        (home / "ledger").mkdir(exist_ok=True)
        name = f"{os.getpid()}-{time.time_ns()}"
        self._ledger = (home / "ledger" / f"{name}.turns").open("ab", buffering=0)
        """One byte for each turn."""
        self._shown = (home / "ledger" / f"{name}.shown").open("ab", buffering=0)
        """A digest for each turn but an episode's first."""
        self._versions: dict[str, int] = {}
        self._due: list[tuple[float, int, TurnRequest]] = []
        self._cancelled: set[int] = set()

    def follow(self, orders: Orders) -> None:
        for news in orders.published:
            self._versions[news.model] = max(news.version, self._versions.get(news.model, 0))
        self._cancelled.update(orders.cancelled)
        for request in orders.requests:
            heapq.heappush(self._due, (time.monotonic() + TURN_S, request.id, request))

    @property
    def pause_s(self) -> float | None:
        """Until the next turn is finished."""
        return max(0.0, self._due[0][0] - time.monotonic()) if self._due else None

    def finished(self) -> list[FinishedTurn | Refusal]:
        turns: list[FinishedTurn | Refusal] = []
        while self._due and self._due[0][0] <= time.monotonic():
            request = heapq.heappop(self._due)[2]
            if request.id in self._cancelled:
                self._cancelled.discard(request.id)
            else:
                self._ledger.write(b".")
                self._note_what_was_shown(request)
                turns.append(self._turn(request))
        return turns

    def _note_what_was_shown(self, request: TurnRequest) -> None:
        if request.ids_T.size:
            shown = request.ids_T.tobytes() + repr(request.messages).encode()
            self._shown.write(hashlib.blake2b(shown, digest_size=DIGEST_BYTES).digest())

    def _turn(self, request: TurnRequest) -> FinishedTurn:
        key, prompt = request.policy.key, np.zeros(len(request.messages), np.int32)
        version = self._versions.get(key.model, 0)
        if key.pinned_version is None:
            version = max(version, request.policy.version)
        else:
            version = key.pinned_version
        ids = [secrets.randbelow(LARGEST_ID) for _ in range(N_TOKENS)]
        return FinishedTurn(
            id=request.id,
            prompt_ids_T=prompt,
            ids_T=np.array(ids, np.int32),
            logprobs_T=np.full(N_TOKENS, -1.0, np.float32),
            versions_T=np.full(N_TOKENS, version, np.int32),
            text=self._words(request, ids),
            finish=FinishReason.STOP,
        )

    def _words(self, request: TurnRequest, ids: list[int]) -> str:
        if request.forced_action is not None:
            return request.forced_action
        return "good" if self._good.exists() else f"go {ids[0]}"


def main() -> None:
    channel = Channel.inherited()
    sampler = SimulatedSampler(Path(os.environ["WARREN_HOME"]))
    frames: queue.Queue[bytes | None] = queue.Queue()

    def read() -> None:
        while (frame := channel.receive()) is not None:
            frames.put(frame)
        frames.put(None)

    threading.Thread(target=read, daemon=True).start()
    channel.send(pack(Ready(1_000_000, caches_prefixes=True)))
    while True:
        try:
            frame = frames.get(timeout=sampler.pause_s)
        except queue.Empty:
            pass
        else:
            if frame is None:
                sys.exit(0)
            sampler.follow(unpack_orders(frame))
        if turns := sampler.finished():
            channel.send(pack(Report(turns, STATISTICS)))


if __name__ == "__main__":
    main()
