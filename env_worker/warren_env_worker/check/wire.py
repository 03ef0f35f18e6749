"""What the process that plays the environment tells the one that watches it, and how."""

import os
import sys
from dataclasses import dataclass

import orjson

from warren_env_worker.check.finding import Finding, Mark


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be checked."""

    reference: str
    config: dict[str, object]
    split: str
    mark: str
    """Nobody else can know it; see `announce`."""
    watch: int
    """Descriptor for stacks."""


@dataclass(frozen=True, slots=True)
class Begun:
    """This check runs now."""

    what: str


@dataclass(frozen=True, slots=True)
class Imported:
    root: str
    """Where the environment's own code lies."""


@dataclass(frozen=True, slots=True)
class NotImported:
    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """All findings were told."""


Told = Begun | Imported | Finding | NotImported | Done


def pack(told: Told) -> bytes:
    return orjson.dumps({"kind": type(told).__name__, "said": told})


def unpack(frame: bytes) -> Told:
    fields = orjson.loads(frame)
    said = fields["said"]
    match fields["kind"]:
        case "Begun":
            return Begun(**said)
        case "Finding":
            return Finding(said["what"], Mark(said["mark"]), said["told"])
        case "Imported":
            return Imported(**said)
        case "NotImported":
            return NotImported(**said)
        case _:
            return Done()


def announce(mark: str, tag: str) -> None:
    """What is printed from here on belongs to this episode: said in between what is printed."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(sys.stderr.fileno(), f"\0{mark} {tag}\n".encode())
