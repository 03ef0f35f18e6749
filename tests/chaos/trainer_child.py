"""A trainer's child that trains nothing: it waits as long as an op would take, and keeps a ledger.

The model is a chain of digests over its ops, so two models are alike exactly if the same ops were
applied in the same order. Each applied op is a line in `WARREN_HOME/ledger`, written before it is
answered; a checkpoint is a small JSON file, written whole or not at all.
"""

import hashlib
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from warren_broker.worker.channel import Channel
from warren_gpu_worker.trainer.messages import (
    Answer,
    Apply,
    ApplyBatched,
    Close,
    Fail,
    Offload,
    Open,
    Ready,
    pack,
    unpack_order,
)
from warren_schemas.ids import ModelId
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import (
    ForwardBackward,
    OpBody,
    OpDone,
    OptimStep,
    Policy,
    PublishPolicy,
    SaveState,
)

OP_S = float(os.environ.get("CHAOS_OP_S", "0.01"))


@dataclass(slots=True)
class SimulatedModel:
    version: int = 0
    last_op: int = 0
    chain: str = ""

    @classmethod
    def load(cls, path: str | None) -> "SimulatedModel":
        return cls(**json.loads(Path(path).read_text())) if path else cls()


def marks(batch: TokenBatch) -> list[str]:
    """What was sampled in each sequence, as text that no other sequence has."""
    ends = np.cumsum(batch.lengths_B)
    parts = zip([0, *ends[:-1]], ends, strict=True)
    return [mark(batch.ids_N[a:b], batch.mask_N[a:b]) for a, b in parts]


def mark(ids_T: "np.ndarray[tuple[int], np.dtype[np.int32]]", mask_T: object) -> str:
    sampled = ids_T[np.asarray(mask_T) == 1]
    return hashlib.blake2b(sampled.tobytes(), digest_size=12).hexdigest()


class SimulatedTrainer:
    def __init__(self, channel: Channel, home: Path) -> None:
        self._channel = channel
        self._states = home / "states"
        self._states.mkdir(exist_ok=True)
        (home / "ledger").mkdir(exist_ok=True)
        self._ledger = (home / "ledger" / f"{os.getpid()}-{time.time_ns()}.jsonl").open("a")
        self._models: dict[ModelId, tuple[int, SimulatedModel]] = {}

    def run(self) -> None:
        self._channel.send(pack(Ready()))
        while (frame := self._channel.receive()) is not None:
            match unpack_order(frame):
                case Open() as order:
                    self._open(order)
                case Apply() as order:
                    for number, body in order.ops:
                        self._apply(order.model, order.epoch, number, body)
                case ApplyBatched() as order:
                    for part in order.applies:
                        for number, body in part.ops:
                            self._apply(part.model, part.epoch, number, body)
                case Fail():
                    raise AssertionError("one rank alone never runs out of memory")
                case Close() as order:
                    if self._models.get(order.model, (0, None))[0] == order.epoch:
                        del self._models[order.model]
                case Offload():
                    raise AssertionError("nothing here frees its memory")

    def _open(self, order: Open) -> None:
        model = SimulatedModel.load(order.checkpoint_url)
        assert model.last_op == order.next_op - 1, (model, order)
        self._models[order.model] = order.epoch, model
        outcome = OpDone(version=model.version)
        self._channel.send(pack(Answer(order.model, order.epoch, 0, outcome)))

    def _apply(self, model_id: ModelId, epoch: int, number: int, body: OpBody) -> None:
        time.sleep(OP_S)
        model = self._models[model_id][1]
        assert number == model.last_op + 1, (number, model)
        digest = hashlib.blake2b(body.model_dump_json().encode(), digest_size=12).hexdigest()
        model.last_op = number
        model.chain = hashlib.blake2b((model.chain + digest).encode(), digest_size=12).hexdigest()
        outcome = self._outcome(model_id, model, body)
        sequences = marks(body.batch) if isinstance(body, ForwardBackward) else []
        line = {
            "model": model_id,
            "epoch": epoch,
            "number": number,
            "kind": body.kind,
            "digest": digest,
            "chain": model.chain,
            "marks": sequences,
            "at_s": time.monotonic(),
        }
        self._ledger.write(json.dumps(line) + "\n")
        self._ledger.flush()
        self._channel.send(pack(Answer(model_id, epoch, number, outcome)))

    def _outcome(self, model_id: ModelId, model: SimulatedModel, body: OpBody) -> OpDone:
        match body:
            case OptimStep():
                model.version += 1
                return OpDone(version=model.version, metrics={"grad_norm": 1.0})
            case PublishPolicy():
                policy = Policy(version=model.version, url=f"sim://{model.version}", size_bytes=1)
                return OpDone(version=model.version, policy=policy)
            case SaveState(name=name):
                path = self._states / f"{model_id}-{name}.json"
                part = path.with_suffix(f".{os.getpid()}.part")
                part.write_text(json.dumps(asdict(model)))
                part.replace(path)
                return OpDone(version=model.version, checkpoint_url=str(path))
            case ForwardBackward():
                return OpDone(version=model.version, metrics={"loss:sum": 0.5})
            case _:
                return OpDone(version=model.version)


def main() -> None:
    SimulatedTrainer(Channel.inherited(), Path(os.environ["WARREN_HOME"])).run()


if __name__ == "__main__":
    main()
