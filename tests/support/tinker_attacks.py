"""Requests of the Tinker protocol that have names in them: by the table of routes, one for each place of a path, a query
and a body that can hold a name. A route or a field of a new kind fails here until it is told what to send."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args, get_type_hints
from urllib.parse import quote, urlencode

import aiohttp
from pydantic import BaseModel
from tests.support.tinker import Json
from tests.support.tinker_tenants import BASE, Tenant
from yarl import URL

from warren_gateway.api.route import Route
from warren_gateway.api.table import ROUTES
from warren_gateway.api.tinker.errors import speaks_tinker
from warren_schemas.tinker import requests
from warren_schemas.tinker.account import ProjectId
from warren_schemas.tinker.requests import Anything, Id, LoadAsked, OpAsked
from warren_schemas.users.access import KeyScope

ATTACKED = [
    route
    for route in ROUTES
    if speaks_tinker(route.path) and route.scope not in ("public", KeyScope.ADMIN)
]
OPS: dict[str, tuple[type[BaseModel], ...]] = {
    "optim_step": (requests.OptimStepAsked,),
    "save_weights": (requests.SaveWeights,),
    "save_weights_for_sampler": (requests.SaveWeightsForSampler,),
    "save_weights_external": (requests.SaveExternal,),
    "load_weights": (requests.LoadWeights, requests.LoadNew),
}
"""Bodies that are read later."""
CHECKPOINTS = [("weights", "s1"), ("sampler_weights", "w1"), ("external_weights", "out")]
_KEPT = ("weights", "sampler_weights", "external_weights")
FIELDS: dict[str, tuple[str, ...]] = {
    "session_id": ("session",),
    "last_session_id": ("session",),
    "model_id": ("training",),
    "sampling_session_id": ("sampler",),
    "request_id": ("op", "sample", "creation"),
    "path": _KEPT,
    "tinker_path": _KEPT,
    "source_path": _KEPT,
    "model_path": _KEPT,
    "base_model": ("model", "training"),
    "project_id": ("project",),
    "project_ids": ("project",),
    "owner_urns": ("session",),
}
"""Those that hold names, and which kinds belong there."""
IN_PROTOBUF = ("model_id", "seq_id", "loss_fn")
_DAYS = {"starting_on": "2026-11-01T00:00:00Z", "ending_before": "2026-11-02T00:00:00Z"}
_OTHERWISE: dict[str, Json] = {"cursor": {"last_created_at": "2026-11-01T00:00:00Z"}}
"""What else must be told where a part of a body is."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    media_type: str
    text: str


def name_of(route: Route) -> str:
    return f"{route.method} {route.path.removeprefix('/api/v1/')}"


def bodies(route: Route) -> tuple[type[BaseModel], ...]:
    if route.takes in (OpAsked, LoadAsked):
        return OPS[route.path.rpartition("/")[2]]
    return (route.takes,)


def places(route: Route, kind: type[BaseModel]) -> list[tuple[str, ...]]:
    """Where a body of this kind has names."""
    if kind is Anything:  # read by nobody, or in protobuf
        return [IN_PROTOBUF[:1]] if route.takes_file else []
    found = list(_places(kind))
    assert all(place[-1] in FIELDS for place in found), f"tell FIELDS of {found}"
    return found


def _places(kind: type[BaseModel], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for field, hint in get_type_hints(kind, include_extras=True).items():
        if field.startswith("_") or field == "model_config":
            continue
        parts = list(_parts(hint))
        if any(part is named for part in parts for named in (Id, ProjectId)):
            yield (*before, field)
        for part in parts:
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from _places(part, (*before, field))


def _parts(hint: object) -> Iterator[object]:
    yield hint
    for part in get_args(hint):
        yield from _parts(part)


class Requests:
    """Of one tenant; each has a number of its own."""

    def __init__(self, http: aiohttp.ClientSession, origin: str, own: Tenant) -> None:
        self._http = http
        self._origin = origin
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
            "loss_fn": "cross_entropy",
        }
        fields = IN_PROTOBUF if route.takes_file else kind.model_fields
        return {key: value for key, value in every.items() if key in fields}

    async def send(
        self, route: Route, path: str, body: Json, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """The path goes as it is: who calls has quoted what needs it."""
        data = _data(route, body)
        query = _DAYS if "usage/events" in path else {} if data is not None else body
        text = urlencode(query, doseq=True, errors="surrogatepass")
        url = URL(f"{self._origin}{path}?{text}", encoded=True)
        async with self._http.request(route.method, url, headers=headers, data=data) as response:
            text = await response.text(errors="replace")
            return Answer(response.status, response.content_type, text)

    async def undo(self, place: "Place") -> None:
        """A project is a word, and whoever names one has it: the caller goes back to their own."""
        if place.route.name == "assign_project" and place.in_body:
            await self.send(place.route, *place.request(self, self._own.project))


def _data(route: Route, body: Json) -> bytes | None:
    if route.takes_file:
        return message(body)
    return json.dumps(body).encode() if route.has_body else None


def message(body: Json) -> bytes:
    """A body in protobuf, whose names may be what no text is; without data its future fails."""
    model = str(body["model_id"]).encode(errors="surrogatepass")
    loss = str(body["loss_fn"]).encode()
    parts = [_of_bytes(1, model), bytes([2 << 3]), _varint(body["seq_id"]), _of_bytes(4, loss)]
    return b"".join(parts)


def _of_bytes(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number >= 128:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def urls(route: Route, own: Tenant) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """The path with the caller's own names, and with a place left for each of them in turn: what stands before
    the place, what behind it, the own name, and the kind of name that it is for; without a place, the path alone."""
    found = list[tuple[str, str, str, tuple[str, ...]]]()
    for kind, checkpoint in CHECKPOINTS if "{kind}" in route.path else [("", "")]:
        path = route.path.replace("{kind}", kind).replace("{checkpoint}", checkpoint)
        for place in re.findall(r"{(\w+)}", path):
            before, after = path.split(f"{{{place}}}")
            found.append((before, after, own.names[place], (place,)))
    return found or [(route.path, "", "", ())]


def put(body: Json, place: tuple[str, ...], name: object) -> Json:
    """The body with a name in this place."""
    *outer, field = place
    changed = inner = {**body}
    for key in outer:
        inner[key] = dict(inner.get(key) or _OTHERWISE.get(key, {}))
        inner = inner[key]
    inner[field] = [name] if field.endswith("s") else name
    return changed


@dataclass(frozen=True, slots=True)
class Place:
    """Where a name can stand in a request of a route."""

    route: Route
    takes: type[BaseModel]
    before: str
    after: str
    name: str
    """What the path has where the name is in the body."""
    kinds: tuple[str, ...]
    """Of names that belong there."""
    in_body: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = ".".join(self.in_body) or f"{self.before}{{}}{self.after}"
        return f"{name_of(self.route)} {where}"

    def request(self, requests: Requests, name: str, safe: str = "/:") -> tuple[str, Json]:
        """Path and body, with this name; `safe` is left as it is in a path."""
        body = requests.body(self.takes, self.route)
        if self.in_body:
            return f"{self.before}{self.name}{self.after}", put(body, self.in_body, name)
        quoted = quote(name, safe=safe, errors="surrogatepass")
        return f"{self.before}{quoted}{self.after}", body


def places_of(route: Route, own: Tenant) -> list[Place]:
    found = list[Place]()
    for takes in bodies(route):
        paths = [Place(route, takes, *url) for url in urls(route, own)]
        found += [place for place in paths if place.name]
        found += [
            replace(paths[0], in_body=place, kinds=FIELDS[place[-1]])
            for place in places(route, takes)
        ]
    return found


def alike(answer: Answer) -> Answer:
    """Without what is another one each time, and without what tells a tenant from its decoy."""
    try:
        text = json.dumps(_plain(json.loads(answer.text)))
    except ValueError:
        text = _plain_text(answer.text)
    return replace(answer, text=text)


def _plain(value: Any) -> object:
    if isinstance(value, str):
        return _plain_text(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {_plain_text(str(k)): _plain(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value


def _plain_text(text: str) -> str:
    text = re.sub(r"[a-z]+_[0-9a-f]{28}", "ID", text)
    return re.sub(r"\d+", "#", re.sub(r"downloads/[\w-]+", "DOWNLOAD", text))
