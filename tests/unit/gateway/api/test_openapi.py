"""The OpenAPI document: valid, complete, and true about what the routes answer."""

import json
import re
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import BaseModel, ValidationError
from tests.support.gateway import CONFIG, Gateway

import warren_gateway
from warren_gateway.api import table
from warren_gateway.api.openapi import document
from warren_gateway.api.table import ROUTES


def test_the_document_is_valid_openapi() -> None:
    OpenAPIV31SpecValidator(document()).validate()


def test_every_route_stands_in_it() -> None:
    paths = document()["paths"]
    told = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert told == {(route.method, route.path) for route in ROUTES}


def test_every_answer_has_a_schema_that_is_there() -> None:
    whole = document()
    text = json.dumps(whole)
    schemas = whole["components"]["schemas"]
    named = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert named <= set(schemas)


def test_only_health_and_what_has_a_token_of_its_own_is_open_to_all() -> None:
    open_paths = [path for path, methods in document()["paths"].items() if _is_open(methods)]
    assert open_paths == ["/api/v1/healthz", "/api/v1/downloads/{token}", "/healthz"]


async def test_it_is_served_without_a_key(gateway: Gateway) -> None:
    async with gateway.nobody.get("/openapi.json") as response:
        assert response.status == 200
        assert await response.json() == document()


async def test_what_a_route_answers_is_told(gateway: Gateway) -> None:
    """A wrong config, key and run lead to statuses that the document names."""
    told = document()["paths"]["/v1/runs"]["post"]["responses"]
    for client, body in (
        (gateway.ann, {"config": CONFIG}),
        (gateway.ann, {}),
        (gateway.nobody, {}),
    ):
        async with client.post("/v1/runs", json=body) as response:
            assert str(response.status) in told


def test_a_choice_of_kinds_requires_the_kind() -> None:
    """A default does not choose: without its kind the least source would be valid here, and refused."""
    schemas = document()["components"]["schemas"]
    for name in ("LiveSource", "LoraUpdate"):
        assert "kind" in schemas[name]["required"]


def test_a_map_takes_no_key_that_is_refused() -> None:
    splits = document()["components"]["schemas"]["EnvironmentConfig"]["properties"]["splits"]
    assert splits["additionalProperties"] is False


def test_streams_are_told_by_event_and_lines_by_line() -> None:
    paths = document()["paths"]
    event = _content_of(paths["/v1/runs/{run}/events"]["get"])["text/event-stream"]["schema"]
    assert event["required"] == ["data"]
    assert event["properties"]["data"]["contentSchema"] == {"$ref": "#/components/schemas/RunEvent"}
    lines = _content_of(paths["/v1/runs/{run}/metrics"]["get"])["application/x-ndjson"]["schema"]
    assert (lines["type"], lines["items"]) == (
        "array",
        {"$ref": "#/components/schemas/MetricsView"},
    )


def test_answers_that_may_be_streamed_say_so() -> None:
    paths = document()["paths"]
    for path in ("/v1/chat/completions", "/v1/completions"):
        assert set(_content_of(paths[path]["post"])) == {"application/json", "text/event-stream"}


def test_the_end_of_a_stream_is_told_as_no_json() -> None:
    answer = _content_of(document()["paths"]["/v1/completions"]["post"])["text/event-stream"]
    assert {"const": "[DONE]"} in answer["schema"]["properties"]["data"]["anyOf"]


def test_a_repeated_submit_is_told() -> None:
    assert {"200", "201"} <= set(document()["paths"]["/v1/runs"]["post"]["responses"])


def test_a_websocket_and_a_file_promise_no_json() -> None:
    paths = document()["paths"]
    connected = paths["/v1/env-workers/connect"]["get"]["responses"]["101"]
    assert "content" not in connected
    assert _content_of(paths["/v1/runs/{run}/file"]["get"]) == {"application/octet-stream": {}}


async def test_last_event_id_is_what_the_document_says(gateway: Gateway) -> None:
    run = await gateway.submit()
    operation = document()["paths"]["/v1/runs/{run}/events"]["get"]
    (header,) = [part for part in operation["parameters"] if part["in"] == "header"]
    for text, status in (("x", 422), ("9" * 20, 422), ("-1", 422), ("", 200), ("9" * 19, 200)):
        assert bool(re.search(header["schema"]["pattern"], text)) is (status == 200)
        path, headers = f"/v1/runs/{run}/events", {"Last-Event-ID": text}
        async with gateway.ann.get(path, headers=headers) as response:
            assert response.status == status


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "DELETE"])
async def test_allow_names_what_the_path_takes(gateway: Gateway, method: str) -> None:
    """Of that path alone, and not of those whose parameter it could be."""
    async with gateway.ann.request(method, "/v1/runs/check") as response:
        assert (response.status, response.headers["Allow"]) == (405, "POST")


def _content_of(operation: dict[str, Any]) -> dict[str, Any]:
    return operation["responses"]["200"]["content"]


def _is_open(methods: dict[str, Any]) -> bool:
    return all(operation["security"] == [] for operation in methods.values())


def test_every_module_with_routes_is_in_the_table() -> None:
    names = {module.name for module in walk_packages(warren_gateway.__path__, "warren_gateway.")}
    modules = [import_module(name) for name in sorted(names - {table.__name__})]
    routes = {route for module in modules for route in getattr(module, "ROUTES", ())}
    assert routes == set(ROUTES)


def test_a_body_is_required_where_it_is() -> None:
    """A request without one is read as `{}`."""
    for route in ROUTES:
        body = document()["paths"][route.path][route.method.lower()].get("requestBody")
        if body is not None:
            is_needed = route.takes_file or not _may_be_empty(route.takes)
            assert body["required"] == is_needed, route.name


def _may_be_empty(model: type[BaseModel]) -> bool:
    try:
        model.model_validate_json(b"{}")
    except ValidationError:
        return False
    return True
