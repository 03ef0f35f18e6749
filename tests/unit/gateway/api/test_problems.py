"""Keys and errors, over every route of the table."""

import logging
from collections import defaultdict
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sqlmodel import select
from tests.support.access import ADMIN
from tests.support.factories import make_episode_ended
from tests.support.gateway import Follower, Gateway, open_gateway
from tests.support.lost_store import lost_store

from warren_broker.port import Broker
from warren_broker.remote.frames import PATH
from warren_broker.topology import generate
from warren_gateway.access.caller import Viewer
from warren_gateway.access.key import Key
from warren_gateway.api.openai.errors import speaks_openai
from warren_gateway.api.route import Route
from warren_gateway.api.table import ROUTES
from warren_gateway.api.tinker.errors import speaks_tinker
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.runs.service import Runs
from warren_gateway.store.outbox import Relay
from warren_gateway.store.store import Store, StoreUnavailable
from warren_gateway.store.tables import Run
from warren_schemas.codec.wire import encode
from warren_schemas.http import Problem, RunView
from warren_schemas.openai import OpenAIError, OpenAIProblem
from warren_schemas.tinker.answers import Detail
from warren_schemas.users.access import KeyScope

STORELESS = (
    "/v1/workers",
    "/v1/budgets",
    "/api/v1/get_server_capabilities",
    "/api/v1/cancel_future",
    "/api/v1/client/config",
    "/api/v1/client/dynamic_config",
    "/api/v1/telemetry",
    PATH,
)
"""Once a key is known, they answer without it."""
LOCKED = [route for route in ROUTES if route.needs_key]
QUERIES = {
    **{f"/v1/datasets/{what}": {"dataset": "ann/quiz"} for what in ("file", "rows", "show")},
    "/v1/datasets/upload": {"sha256": "a" * 64},
    "/v1/adapters/upload": {"sha256": "a" * 64},
    **{f"/v1/base-models/{what}": {"base_model": "ann/mine"} for what in ("file", "files", "show")},
    "/v1/base-models/upload": {"sha256": "a" * 64},
    **{f"/v1/adapters/{what}": {"adapter": "ann/poet"} for what in ("file", "files", "show")},
    "/api/v1/billing/usage/events": {
        "starting_on": "2026-01-01T00:00:00Z",
        "ending_before": "2026-01-02T00:00:00Z",
    },
}
POLL = "/api/v1/retrieve_future"
"""Whose clients come again at once after 503."""
SESSION = "12345678-1234-5678-1234-567812345678"
NAMES = defaultdict(
    lambda: "run_0", letter="msg_1", user="ann", key_id="k", sampler=f"{SESSION}:sample:0"
)
"""Of nothing that there is."""
OF_MODEL: dict[str, Any] = {"model_id": f"{SESSION}:train:0", "seq_id": 1}
SAVED = f"tinker://{SESSION}:train:0/weights/a"
TINKER: dict[str, Any] = {
    "/api/v1/asample": {
        "sampling_session_id": f"{SESSION}:sample:0",
        "seq_id": 0,
        "num_samples": 1,
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1]}]},
        "sampling_params": {"max_tokens": 1},
    },
    "/api/v1/cancel_future": {"request_id": f"{SESSION}:sample:0:0"},
    "/api/v1/copy_weights": {"session_id": SESSION, "model_seq_id": 0, "source_path": SAVED},
    "/api/v1/create_sampling_session": {
        "session_id": SESSION,
        "sampling_session_seq_id": 0,
        "base_model": "m",
    },
    "/api/v1/get_info": {"model_id": f"{SESSION}:train:0"},
    "/api/v1/load_weights": {**OF_MODEL, "path": SAVED, "optimizer": False},
    "/api/v1/optim_step": {**OF_MODEL, "adam_params": {"learning_rate": 1e-4}},
    "/api/v1/retrieve_future": {"request_id": f"{SESSION}:sample:0:0"},
    "/api/v1/retrieve_futures": {
        "target": {"type": "sampling_session", "sampling_session_id": f"{SESSION}:sample:0"}
    },
    "/api/v1/save_weights": {**OF_MODEL, "path": "a"},
    "/api/v1/save_weights_for_sampler": {**OF_MODEL, "path": "a"},
    "/api/v1/save_weights_external": {**OF_MODEL, "path": "a"},
    "/api/v1/session_heartbeat": {"session_id": SESSION},
    "/api/v1/weights_info": {"tinker_path": SAVED},
}
WRONG_KEYS = [
    {},
    {"Authorization": "Bearer "},
    {"Authorization": "Bearer wk_none"},
    {"Authorization": f"Bearer {Key.new()}"},
    {"Authorization": f"Basic {Key.new()}"},
    {"Authorization": "Bearer wep_0a1b2c3d4e5f6g7h8i9j0k1l2m3n4o5p"},  # as of an agent's episode
]


def _name(route: Route) -> str:
    return f"{route.method} {route.path}"


async def _ask(client: aiohttp.ClientSession, route: Route, **fields: Any) -> tuple[int, Any]:
    path = route.path.format_map(NAMES)
    async with client.request(route.method, path, **fields) as response:
        assert response.content_type == "application/json"
        return response.status, (await response.json(), response.headers)


@pytest.mark.parametrize("budgets", [BudgetOptions(wrong_key_burst_per_address=1000)], ids=[""])
@pytest.mark.parametrize("headers", WRONG_KEYS, ids=range(len(WRONG_KEYS)))
async def test_every_route_but_health_wants_a_right_key(
    gateway: Gateway, headers: dict[str, str]
) -> None:
    for route in LOCKED:
        status, (body, answer_headers) = await _ask(gateway.nobody, route, headers=headers)
        assert status == 401, route
        assert "Authorization: Bearer" in str(_told(route, body)), route
        assert answer_headers["WWW-Authenticate"] == "Bearer", route


async def test_a_revoked_key_is_refused(gateway: Gateway) -> None:
    key = Key.new()
    await gateway.services.keys.add(key, "ann")
    headers = {"Authorization": f"Bearer {key}"}
    async with gateway.nobody.get("/v1/runs", headers=headers) as response:
        assert response.status == 200
    await gateway.services.keys.revoke(ADMIN, key.id)
    async with gateway.nobody.get("/v1/runs", headers=headers) as response:
        assert response.status == 401


async def test_an_unknown_route_is_404_and_a_wrong_method_405(gateway: Gateway) -> None:
    async with gateway.nobody.get("/v1/nothing") as response:
        assert response.status == 404
        assert Problem.model_validate_json(await response.read()).code == "not_found"
    async with gateway.nobody.delete("/v1/runs") as response:
        assert response.status == 405
        assert response.headers["Allow"] == "GET,POST"
        assert Problem.model_validate_json(await response.read()).code == "method_not_allowed"


@pytest.mark.parametrize(
    "route",
    [
        route
        for route in LOCKED
        if route.path not in STORELESS and route.scope is not KeyScope.ADMIN
    ],
    ids=_name,
)
async def test_a_store_that_is_away_is_503_with_a_time_to_come_back(
    gateway: Gateway, route: Route
) -> None:
    async with gateway.ann.get("/v1/runs") as response:
        assert response.status == 200  # the key is known from here on
    await _give_up(gateway.broker)  # whose letter it is stands in the store
    body = {"config": {"model": {"base": "m"}, "environments": [{"name": "e"}]}}
    body |= {"idempotency_key": "12345678"}
    bodies = {
        "/v1/runs": body,
        "/v1/runs/check": body,
        "/v1/chat/completions": {"model": "m", "messages": [{"role": "user", "content": "?"}]},
        "/v1/completions": {"model": "m", "prompt": "?"},
        "/inference/v1/generate": {"model": "m", "token_ids": [2]},
        "/v1/trainable/{model}/ops": {"op": {"kind": "publish"}},
        **TINKER,
    }
    fields: dict[str, Any] = {"params": QUERIES.get(route.path)}
    if route.method == "POST":
        fields = {"json": bodies.get(route.path)}
    with lost_store():
        status, (answer, headers) = await _ask(gateway.ann, route, **fields)
    assert status == (429 if route.path == POLL else 503)
    assert _told(route, answer).code == "store_unavailable"
    assert int(headers["Retry-After"]) > 0


async def test_a_key_can_not_be_checked_without_the_store(gateway: Gateway) -> None:
    with lost_store():
        async with gateway.ann.get("/v1/runs") as response:
            assert response.status == 503


async def test_a_broker_that_is_closed_is_503(gateway: Gateway, broker: Broker) -> None:
    await broker.close()
    async with gateway.ann.get("/v1/queues") as response:
        assert response.status == 503
        assert Problem.model_validate_json(await response.read()).code == "broker_unavailable"


class MistakenRuns(Runs):
    async def show(self, viewer: Viewer, run: str) -> RunView:
        raise RuntimeError("secret detail")


async def test_a_mistake_of_ours_is_logged_with_an_id_and_not_shown(
    store: Store, broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs = MistakenRuns(
        store, broker, Relay(store, broker), runs_dir=tmp_path, queue=Follower(), followers=()
    )
    with caplog.at_level(logging.ERROR):
        async with (
            open_gateway(store, broker, tmp_path, runs=runs) as gateway,
            gateway.ann.get("/v1/runs/run_0") as response,
        ):
            assert response.status == 500
            text = await response.text()
    problem = Problem.model_validate_json(text)
    error_id = problem.message.partition("(")[2].partition(")")[0]
    assert error_id.startswith("error_")
    assert error_id in caplog.text
    assert "secret detail" in caplog.text
    assert "secret detail" not in text


async def _give_up(broker: Broker) -> None:
    body = encode([make_episode_ended()])
    await broker.dead_letter(body, origin=generate("m"), reason="refused", message_id="msg_1")


def _told(route: Route, body: Any) -> Problem | OpenAIProblem:
    """The error, in the shape of the route."""
    if speaks_openai(route.path):
        return OpenAIError.model_validate(body).error
    if speaks_tinker(route.path):
        told = Detail.model_validate(body)
        return Problem(code=told.code, message=told.detail)
    return Problem.model_validate(body)


async def test_losing_the_store_is_what_a_lost_database_looks_like(store: Store) -> None:
    with lost_store(), pytest.raises(StoreUnavailable):
        await store.transact(lambda session: session.exec(select(Run)).all())
