"""Messages that are valid and wrong: of runs, episodes and models that nobody knows or that have ended,
with leases, attempts, turns and versions of the past and of the future.

None names a run that goes on. Events of runs and grants of models are not forged: they are right by saying
so, and whoever reads them has nothing to hold them against.
"""

import random
import time
from dataclasses import dataclass

from warren_schemas.codec.frame import WireError
from warren_schemas.codec.wire import decode, encode
from warren_schemas.control import Heartbeat, PolicyPublished
from warren_schemas.envelope import Item
from warren_schemas.episode import EpisodeEnded, EpisodeSpec, Generate, StartEpisode, Step
from warren_schemas.events import RunEvent
from warren_schemas.ids import EpisodeId, ModelId, RunId, new_id, new_message_id, new_worker_id
from warren_schemas.training import DeleteModel, Op, OpenModel, OpResult

PLAYED_S = 5.0
"""How long anybody may play what was forged."""
_NUMBERS = (1, 2, 3, 1000, 2**31, 2**62)


@dataclass(frozen=True, slots=True)
class Stranger:
    """A run that has ended."""

    run: RunId
    model: ModelId


def forged(rng: random.Random, body: bytes, stranger: Stranger) -> bytes | None:
    """None for what can't be forged without being right."""
    try:
        items = decode(body).items
    except WireError:
        return None
    if not items or isinstance(items[0], RunEvent | OpenModel):
        return None
    return encode([_forged(rng, item, stranger) for item in items])


def _forged(rng: random.Random, item: Item, stranger: Stranger) -> Item:
    run = rng.choice((stranger.run, RunId(new_id("run"))))
    envelope = item.envelope.model_copy(
        update={
            "id": new_message_id(),
            "run": run,
            "episode": EpisodeId(new_id("ep")),
            "attempt": rng.choice(_NUMBERS),
            "deadline_s": time.time() + rng.choice((-1.0, PLAYED_S)),
        }
    )
    return item.model_copy(update={"envelope": envelope, **_changes(rng, item, run, stranger)})


def _changes(rng: random.Random, item: Item, run: RunId, stranger: Stranger) -> dict[str, object]:
    ghost = ModelId(new_id("model"))
    model, number = rng.choice((stranger.model, ghost)), rng.choice(_NUMBERS)
    match item:
        case Generate() | Step():
            return {"spec": _spec(rng, item.spec, model), "turn": number}
        case StartEpisode() | EpisodeEnded():
            return {"spec": _spec(rng, item.spec, model)}
        case Op() | OpResult():
            return {"model": model, "epoch": rng.choice(_NUMBERS), "number": number}
        case DeleteModel():
            return {"model": ghost}  # what has ended may be read yet
        case PolicyPublished():
            policy = item.policy.model_copy(update={"version": number, "url": "file:///nowhere"})
            return {"model": ghost, "policy": policy}
        case Heartbeat():
            return {"worker": new_worker_id("env")}
        case _:
            changes = {"model": ghost, "epoch": number, "ended_run": run}
            return {
                name: value for name, value in changes.items() if name in type(item).model_fields
            }


def _spec(rng: random.Random, spec: EpisodeSpec, model: ModelId) -> EpisodeSpec:
    url = rng.choice((None, "file:///nowhere", spec.policy.url))
    changes = {"model": model, "min_version": rng.choice(_NUMBERS), "url": url}
    return spec.model_copy(update={"policy": spec.policy.model_copy(update=changes)})
