"""The OpenAPI 3.1 document, made from the route table.

Invariant: what a route takes and answers is what stands here, so far as JSON Schema can say it. A stream
is described as OpenAPI 3.2 does it: server-sent events by the schema of one event, JSON lines as an array.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import orjson
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema

from warren_gateway.api.dialects import error_of
from warren_gateway.api.health import installed_version
from warren_gateway.api.route import Nothing, Route
from warren_gateway.api.table import ROUTES
from warren_schemas.openai import OpenAIError

Json = dict[str, Any]

_REFERENCE = "#/components/schemas/{model}"
_EVENTS = "text/event-stream"
_BYTES = "application/octet-stream"
_POSITION: Json = {"type": "string", "pattern": "^[0-9]{1,19}$"}
_LAST_POSITION: Json = {"type": "string", "pattern": "^[0-9]{0,19}$"}
"""None, or an empty one."""

_REASONS = {
    400: "Not JSON, or (OpenAI-compatible routes) doesn't match the schema",
    401: "No API key, or one that is not good any more",
    403: "The key lacks the route's scope, or may not do this",
    404: "Not found, or owned by somebody else",
    408: "The body did not arrive in time",
    409: "Not possible in the current state",
    410: "No longer kept",
    413: "Too large",
    422: "Doesn't match the schema",
    426: "Not a WebSocket",
    429: "Too many requests wait; try again later",
    500: "Internal error",
    502: "A sampler failed",
    503: "Store, broker or samplers are unavailable; see Retry-After",
    504: "No sampler answered in time",
    507: "No space is left for it",
}


@cache
def encoded() -> bytes:
    """The document, made once for a process: that takes a third of a second, so never on an event loop."""
    return orjson.dumps(document())


@cache
def document() -> dict[str, Any]:
    """The whole API as plain JSON. All callers share it: nobody changes it."""
    schemas = _schemas()
    paths: Json = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Warren", "version": installed_version()},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schemas() -> Json:
    taken = {route.takes for route in ROUTES} - {Nothing}
    answered = {route.answers for route in ROUTES} | {error_of(route.path) for route in ROUTES}
    answered |= {route.streams for route in ROUTES if route.streams}
    models = sorted(taken | answered, key=lambda model: model.__name__)
    _, definitions = models_json_schema(
        [(model, "validation") for model in models],
        ref_template=_REFERENCE,
    )
    _require_kinds(definitions["$defs"])
    _close_maps(definitions["$defs"])
    return definitions["$defs"]


def _require_kinds(schemas: Json) -> None:
    """A default does not choose: each choice of kinds says which it is."""
    for choice in (node["discriminator"] for node in _nodes(schemas) if "oneOf" in node):
        for reference in choice["mapping"].values():
            chosen = schemas[reference.rpartition("/")[2]]
            chosen["required"] = sorted({*chosen.get("required", ()), choice["propertyName"]})


def _close_maps(schemas: Json) -> None:
    """A map whose keys have a pattern takes no others."""
    for node in _nodes(schemas):
        if "patternProperties" in node:
            node["additionalProperties"] = False


def _nodes(node: object) -> Iterator[Json]:
    """Every object in it, itself first."""
    if isinstance(node, list):
        for each in cast("list[object]", node):
            yield from _nodes(each)
    elif isinstance(node, dict):
        members = cast("Json", node)
        yield members
        for each in list(members.values()):
            yield from _nodes(each)


def _operation(route: Route) -> Json:
    error = error_of(route.path)
    statuses = {*route.errors, 500, 503} | route.refusals
    if route.has_body:
        statuses.add(408)
    operation: Json = {
        "operationId": route.name,
        "summary": route.summary,
        "x-scope": route.scope,
        "security": [{"key": []}] if route.needs_key else [],
        "parameters": _parameters(route),
        "responses": {
            **{str(status): _answer(route) for status in (route.status, route.repeated_status)},
            **{str(status): _content(_REASONS[status], error) for status in sorted(statuses)},
        },
    }
    if route.takes_file:
        file: Json = {"schema": {"type": "string", "contentMediaType": _BYTES}}
        operation["requestBody"] = {"required": True, "content": {_BYTES: file}}
    elif not route.has_query and route.takes is not Nothing:
        is_required = not _takes_nothing(route.takes)
        operation["requestBody"] = {"required": is_required, **_content("", route.takes)}
    return operation


def _takes_nothing(model: type[BaseModel]) -> bool:
    """Whether `{}`, as which a request without a body is read, is valid."""
    try:
        model.model_validate({})
    except ValidationError:
        return False
    return True


def _answer(route: Route) -> Json:
    if route.status == 101:
        return {"description": f"A WebSocket, whose first frame is a {route.answers.__name__}"}
    content = {route.media_type: _body(route.answers, route.media_type)}
    if route.also_answers:
        content[route.also_answers] = {}
    if route.streams:
        told = [{"$ref": _REFERENCE.format(model=m.__name__)} for m in (route.streams, OpenAIError)]
        last = "`[DONE]` is the last event, unless an error is."
        event: Json = _event({"anyOf": told}) | {"description": last}
        event["properties"]["data"] = {"anyOf": [{"const": "[DONE]"}, event["properties"]["data"]]}
        content[_EVENTS] = {"schema": event}
    return {"description": "Done", "content": content}


def _body(model: type[BaseModel], media_type: str) -> Json:
    reference = {"$ref": _REFERENCE.format(model=model.__name__)}
    match media_type:
        case "application/octet-stream":
            return {}
        case "application/x-ndjson":
            return {"schema": {"type": "array", "items": reference, "description": "One a line."}}
        case "text/event-stream":
            return {"schema": _event(reference)}
        case _:
            return {"schema": reference}


def _event(data: Json) -> Json:
    """One server-sent event."""
    text = {"type": "string", "contentMediaType": "application/json", "contentSchema": data}
    properties = {"data": text, "event": {"type": "string"}, "id": _POSITION}
    return {"type": "object", "required": ["data"], "properties": properties}


def _parameters(route: Route) -> list[Json]:
    in_path = [_parameter(name, "path") for name in re.findall(r"{(\w+)}", route.path)]
    in_query: list[Json] = []
    if route.has_query:
        taken: Json = route.takes.model_json_schema(ref_template=_REFERENCE)
        in_query = [
            _parameter(name, "query", schema, is_required=name in taken.get("required", ()))
            for name, schema in taken.get("properties", {}).items()
        ]
    resumes = route.media_type == _EVENTS
    in_header = [_parameter("Last-Event-ID", "header", _LAST_POSITION)] if resumes else []
    return [*in_path, *in_query, *in_header]


def _parameter(
    name: str, place: str, schema: Json | None = None, *, is_required: bool = False
) -> Json:
    return {
        "name": name,
        "in": place,
        "required": place == "path" or is_required,
        "schema": schema or {"type": "string"},
    }


def _content(description: str, model: type[BaseModel]) -> Json:
    content: Json = {"content": {"application/json": _body(model, "application/json")}}
    return {"description": description, **content} if description else content
