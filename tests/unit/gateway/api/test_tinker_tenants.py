"""Names of one tenant of the Tinker protocol in the hands of another: as if there were nothing of the name.

Made from the table of routes: each place of a path, a query and a body that can hold a name gets names of every kind.
What is answered to another tenant's name equals what is answered to a name of nobody, and nothing of the tenant's
moves. A route or a field of a new kind fails here until it is told what to send.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints

import aiohttp
import pytest
from pydantic import BaseModel
from tests.support.gateway import Gateway, heartbeat
from tests.support.tinker import Json
from tests.support.tinker_tenants import BASE, Tenant, everything, tenant

from warren_gateway.api.route import Route
from warren_gateway.api.table import ROUTES
from warren_gateway.api.tinker.errors import speaks_tinker
from warren_gateway.tinker.wire import messages
from warren_schemas.control import WorkerRole
from warren_schemas.tinker import requests
from warren_schemas.tinker.account import ProjectId
from warren_schemas.tinker.requests import Anything, Id, LoadAsked, OpAsked
from warren_schemas.users.access import KeyScope

TESTED = [
    route
    for route in ROUTES
    if speaks_tinker(route.path) and route.scope not in ("public", KeyScope.ADMIN)
]
SECRET, FOLDER = "the-secret-of-ann", "the-folder-of-ann"
OPS: dict[str, tuple[type[BaseModel], ...]] = {
    "optim_step": (requests.OptimStepAsked,),
    "save_weights": (requests.SaveWeights,),
    "save_weights_for_sampler": (requests.SaveWeightsForSampler,),
    "save_weights_external": (requests.SaveExternal,),
    "load_weights": (requests.LoadWeights, requests.LoadNew),
}
"""Bodies that are read later."""
CHECKPOINTS = [("weights", "s1"), ("sampler_weights", "w1"), ("external_weights", "out")]
FIELDS = {
    *("session_id", "model_id", "sampling_session_id", "request_id", "last_session_id"),
    *(
        "path",
        "tinker_path",
        "source_path",
        "model_path",
        "base_model",
        "project_id",
        "project_ids",
        "owner_urns",
    ),
}
"""Those that hold names; `Requests.body` tells what belongs there."""

IN_PROTOBUF = ("model_id", "seq_id")
NO_SAMPLER = 503
"""Accepted, as far as it can be where nothing answers samples."""


def name_of(route: Route) -> str:
    return f"{route.method} {route.path.removeprefix('/api/v1/')}"


def bodies(route: Route) -> tuple[type[BaseModel], ...]:
    if route.takes in (OpAsked, LoadAsked):
        return OPS[route.path.rpartition("/")[2]]
    return (route.takes,)


def places(kind: type[BaseModel], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where a body of this kind has names."""
    for field, hint in get_type_hints(kind, include_extras=True).items():
        if field.startswith("_") or field == "model_config":
            continue
        if holds(hint, Id) or holds(hint, ProjectId):
            yield (*before, field)
        for part in parts(hint):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from places(part, (*before, field))


def parts(hint: object) -> Iterator[object]:
    yield hint
    for part in get_args(hint):
        yield from parts(part)


def holds(hint: object, wanted: object) -> bool:
    return any(part is wanted for part in parts(hint))


class Requests:
    """Of one tenant; each has a number of its own."""

    def __init__(self, http: aiohttp.ClientSession, own: Tenant) -> None:
        self._http = http
        self._own = own
        self._number = 0

    def body(self, kind: type[BaseModel], route: Route) -> Json:
        """One that is right, with the caller's own names."""
        self._number += 1
        every: Json = {
            "session_id": self._own.session,
            "model_seq_id": self._number,
            "sampling_session_seq_id": self._number,
            "seq_id": self._number,
            "base_model": BASE,
            "model_id": self._own.training,
            "sampling_session_id": self._own.sampler,
            "target": {"sampling_session_id": self._own.sampler},
            "timeout": 0,
            "request_id": self._own.sample if "cancel" in route.path else self._own.op,
            "path": self._own.weights if "load" in route.path else f"name-{self._number}",
            "tinker_path": self._own.weights,
            "source_path": self._own.weights,
            "project_id": self._own.project,
            "adam_params": {},
            "prompt": {"chunks": [{"type": "encoded_text", "tokens": [2, 5]}]},
        }
        fields = IN_PROTOBUF if route.takes_file else kind.model_fields
        return {key: value for key, value in every.items() if key in fields}

    async def send(self, route: Route, path: str, body: Json | None) -> tuple[int, str]:
        data = message(body) if route.takes_file and body is not None else None
        is_json = route.has_body and not route.takes_file
        query = {
            "starting_on": "2026-11-01T00:00:00Z",
            "ending_before": "2026-11-02T00:00:00Z",
        }
        async with self._http.request(
            route.method,
            path,
            json=body if is_json else None,
            data=data,
            params=query if "usage/events" in path else (None if is_json or data else body),
        ) as response:
            return response.status, await response.text(errors="replace")


def message(body: Json) -> bytes:
    """A body in protobuf; without data its future fails."""
    made = messages.ForwardBackwardRequest()
    made.model_id, made.seq_id, made.loss_fn = body["model_id"], body["seq_id"], "cross_entropy"
    return made.SerializeToString()


def urls(route: Route, own: Tenant) -> list[tuple[str, str, str]]:
    """The path with the caller's own names, and with a place left for each of them in turn: what stands before
    the place, what behind it, and the kind of name that it is for; without a place, the path alone."""
    found = list[tuple[str, str, str]]()
    for kind, checkpoint in CHECKPOINTS if "{kind}" in route.path else [("", "")]:
        path = route.path.replace("{kind}", kind).replace("{checkpoint}", checkpoint)
        for place in re.findall(r"{(\w+)}", path):
            before, after = path.split(f"{{{place}}}")
            found.append((before, after, own.names[place]))
    return found or [(route.path, "", "")]


def put(body: Json, place: tuple[str, ...], name: str) -> Json:
    """The body with a name in this place."""
    *outer, field = place
    changed = inner = {**body}
    for key in outer:
        inner[key] = dict(inner.get(key) or _OTHERWISE.get(key, {}))
        inner = inner[key]
    inner[field] = [name] if field.endswith("s") else name
    return changed


_OTHERWISE: dict[str, Json] = {"cursor": {"last_created_at": "2026-11-01T00:00:00Z"}}
"""What else must be told where a part of a body is."""


def alike(answer: tuple[int, str], *tenants: Tenant) -> tuple[int, str]:
    """Without the names that were asked for, and without what is another one each time."""
    status, text = answer
    for name in sorted({name for one in tenants for name in one.names.values()}, key=len)[::-1]:
        text = text.replace(name, "NAME")
    text = re.sub(r"[a-z]+_[0-9a-f]{28}", "NAME", text)
    return status, re.sub(r"\d+", "#", re.sub(r"downloads/[\w-]+", "DOWNLOAD", text))


def attacks(
    route: Route, requests: Requests, own: Tenant, target: Tenant
) -> Iterator[tuple[str, str, Json | None]]:
    """A name of the target's of every kind, in every place: what is attacked, the path and the body."""
    kinds = bodies(route)
    for kind in kinds:
        for before, after, name in urls(route, own):
            for of, stolen in target.names.items() if name else ():
                body = requests.body(kind, route)
                yield f"{before}{{{of}}}{after}", f"{before}{stolen}{after}", body
        (before, after, name), *_ = urls(route, own)
        for place in _places(route, kind):
            for of, stolen in target.names.items():
                body = put(requests.body(kind, route), place, stolen)
                yield f"{'.'.join(place)}={of}", f"{before}{name}{after}", body


def _places(route: Route, kind: type[BaseModel]) -> list[tuple[str, ...]]:
    if kind is Anything:  # read by nobody, or in protobuf
        return [IN_PROTOBUF[:1]] if route.takes_file else []
    found = list(places(kind))
    assert all(place[-1] in FIELDS for place in found), f"tell FIELDS of {found}"
    return found


@pytest.fixture
async def tenants(gateway: Gateway, tmp_path: Path) -> tuple[Tenant, Tenant]:
    """Ann, who is attacked, and Bob."""
    for worker, role in (("s1", WorkerRole.SAMPLER), ("t1", WorkerRole.TRAINER)):
        gateway.parts.registry.hear(heartbeat(worker, role, BASE))
    ann = await tenant(gateway, "ann", gateway.ann, tmp_path / FOLDER, SECRET)
    bob = await tenant(gateway, "bob", gateway.bob, tmp_path / "of-bob", "nothing")
    return ann, bob


@pytest.mark.parametrize("route", TESTED, ids=name_of)
async def test_a_name_of_another_tenants_is_nobodys_name(
    gateway: Gateway, tenants: tuple[Tenant, Tenant], route: Route
) -> None:
    ann, bob = tenants
    decoy, sent = ann.decoy(), Requests(gateway.bob, bob)
    before = await gateway.store.transact(lambda s: everything(s, ann, bob))
    stolen, nobodys = attacks(route, sent, bob, ann), attacks(route, sent, bob, decoy)
    for (what, path, body), (_, other_path, other_body) in zip(stolen, nobodys, strict=True):
        told = await sent.send(route, path, body)
        otherwise = await sent.send(route, other_path, other_body)
        assert alike(told, ann, decoy) == alike(otherwise, ann, decoy), what
        assert SECRET not in told[1] and FOLDER not in told[1], what
    after = await gateway.store.transact(lambda s: everything(s, ann, bob))
    assert after == before
    asked = await gateway.store.transact(lambda s: everything(s, bob, decoy))
    assert not [row for row in asked if SECRET in row or FOLDER in row]


@pytest.mark.parametrize("route", TESTED, ids=name_of)
async def test_the_same_requests_lead_a_tenant_to_what_is_their_own(
    gateway: Gateway, tenants: tuple[Tenant, Tenant], route: Route
) -> None:
    ann, bob = tenants
    sent = Requests(gateway.bob, bob)
    told = [
        await sent.send(route, f"{before}{name}{after}", sent.body(kind, route))
        for kind in bodies(route)
        for before, after, name in urls(route, bob)
    ]
    assert any(status < 400 or status == NO_SAMPLER for status, _ in told), told
    hidden = {SECRET, FOLDER, ann.session, ann.run, ann.model, ann.op}
    assert not [text for _, text in told if any(name in text for name in hidden)]
