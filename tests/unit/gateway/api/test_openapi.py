"""The OpenAPI document: valid, complete, and true about what the routes answer."""

import json
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from openapi_spec_validator import OpenAPIV31SpecValidator
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


def test_only_health_is_open_to_all() -> None:
    open_paths = [path for path, methods in document()["paths"].items() if _is_open(methods)]
    assert open_paths == ["/healthz"]


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


def _is_open(methods: dict[str, Any]) -> bool:
    return all(operation["security"] == [] for operation in methods.values())


def test_every_module_with_routes_is_in_the_table() -> None:
    names = {module.name for module in walk_packages(warren_gateway.__path__, "warren_gateway.")}
    modules = [import_module(name) for name in sorted(names - {table.__name__})]
    routes = {route for module in modules for route in getattr(module, "ROUTES", ())}
    assert routes == set(ROUTES)
