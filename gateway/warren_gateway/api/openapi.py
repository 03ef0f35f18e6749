"""The OpenAPI 3.1 document, made from the route table."""

import re
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from warren_gateway.api.health import installed_version
from warren_gateway.api.openai.errors import speaks_openai
from warren_gateway.api.route import Nothing, Route
from warren_gateway.api.table import ROUTES
from warren_schemas.http import Problem
from warren_schemas.openai import OpenAIError

Json = dict[str, Any]

_REFERENCE = "#/components/schemas/{model}"

_REASONS = {
    400: "Not JSON, or (OpenAI-compatible routes) doesn't match the schema",
    401: "Missing or wrong API key",
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
}


def document() -> dict[str, Any]:
    """The whole API as plain JSON."""
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
    answered = {route.answers for route in ROUTES} | {Problem, OpenAIError}
    models = sorted(taken | answered, key=lambda model: model.__name__)
    _, definitions = models_json_schema(
        [(model, "validation") for model in models],
        ref_template=_REFERENCE,
    )
    return definitions["$defs"]


def _operation(route: Route) -> Json:
    error = OpenAIError if speaks_openai(route.path) else Problem
    statuses = {*route.errors, 500, 503} | ({401} if route.scope == "user" else set[int]())
    if route.method == "POST":
        statuses.add(408)
    operation: Json = {
        "operationId": route.name,
        "summary": route.summary,
        "security": [{"key": []}] if route.scope == "user" else [],
        "parameters": _parameters(route),
        "responses": {
            str(route.status): _content("Done", route.answers, route.media_type),
            **{str(status): _content(_REASONS[status], error) for status in sorted(statuses)},
        },
    }
    if route.method == "POST" and route.takes is not Nothing:
        operation["requestBody"] = {"required": True, **_content("", route.takes)}
    return operation


def _parameters(route: Route) -> list[Json]:
    in_path = [_parameter(name, "path") for name in re.findall(r"{(\w+)}", route.path)]
    in_query: list[Json] = []
    if route.method == "GET":
        properties: Json = route.takes.model_json_schema(ref_template=_REFERENCE).get(
            "properties", {}
        )
        in_query = [_parameter(name, "query", schema) for name, schema in properties.items()]
    resumes = route.media_type == "text/event-stream"
    in_header = [_parameter("Last-Event-ID", "header")] if resumes else []
    return [*in_path, *in_query, *in_header]


def _parameter(name: str, place: str, schema: Json | None = None) -> Json:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "schema": schema or {"type": "string"},
    }


def _content(
    description: str, model: type[BaseModel], media_type: str = "application/json"
) -> Json:
    reference = {"$ref": _REFERENCE.format(model=model.__name__)}
    content: Json = {"content": {media_type: {"schema": reference}}}
    return {"description": description, **content} if description else content
