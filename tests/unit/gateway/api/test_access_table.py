"""Every route, by whoever may call it: a key of any kind gets the answer that the table has for it."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

import aiohttp
import pytest
import pytest_asyncio
from tests.support.access import ADMIN, Access
from tests.support.gateway import Gateway
from tests.support.tinker import Wire

from warren_broker.remote.frames import PATH
from warren_gateway.access.key import Key
from warren_gateway.api.route import Route
from warren_gateway.api.table import ROUTES
from warren_schemas.users.access import CreateKey, KeyScope

OF_ONE_OWNER = 404
OWN_LIST = 200
"""Everybody is answered, with what is their own."""
REFUSED = 422
"""Let in, and told what is wrong with a request that names nothing of anybody's."""

ANOTHER_TENANTS: dict[str, int] = {
    "submit_run": REFUSED,
    "list_runs": OWN_LIST,
    "show_run": OF_ONE_OWNER,
    "cancel_run": OF_ONE_OWNER,
    "finish_run": OF_ONE_OWNER,
    "pause_run": OF_ONE_OWNER,
    "resume_run": OF_ONE_OWNER,
    "retry_run": OF_ONE_OWNER,
    "set_run": OF_ONE_OWNER,
    "renew_run": OF_ONE_OWNER,
    "delete_run": OF_ONE_OWNER,
    "check_run": REFUSED,
    "share_run": OF_ONE_OWNER,
    "unshare_run": OF_ONE_OWNER,
    "list_shares": OWN_LIST,
    "show_user": OF_ONE_OWNER,
    "list_usage": OWN_LIST,
    "run_checkpoints": OF_ONE_OWNER,
    "checkpoint_metrics": OF_ONE_OWNER,
    "list_evaluations": OF_ONE_OWNER,
    "show_evaluation": OF_ONE_OWNER,
    "run_files": OF_ONE_OWNER,
    "run_file": OF_ONE_OWNER,
    "run_events_live": OF_ONE_OWNER,
    "run_logs": OF_ONE_OWNER,
    "run_metrics": OF_ONE_OWNER,
    "run_trajectories": OF_ONE_OWNER,
    "list_models": OWN_LIST,
    "show_model": OF_ONE_OWNER,
    "serve_model": OF_ONE_OWNER,
    "list_served": OWN_LIST,
    "remove_served": OF_ONE_OWNER,
    "create_dataset": REFUSED,
    "list_datasets": OWN_LIST,
    "show_dataset": OF_ONE_OWNER,
    "delete_dataset": OF_ONE_OWNER,
    "dataset_rows": OF_ONE_OWNER,
    "dataset_file": OF_ONE_OWNER,
    "share_dataset": OF_ONE_OWNER,
    "unshare_dataset": OF_ONE_OWNER,
    "upload_progress": OWN_LIST,
    "upload_part": REFUSED,
    "list_adapters": OWN_LIST,
    "create_adapter": REFUSED,
    "show_adapter": OF_ONE_OWNER,
    "adapter_files": OF_ONE_OWNER,
    "adapter_file": OF_ONE_OWNER,
    "weights_progress": OWN_LIST,
    "upload_weights": REFUSED,
    "delete_adapter": OF_ONE_OWNER,
    "share_adapter": OF_ONE_OWNER,
    "unshare_adapter": OF_ONE_OWNER,
    "list_base_models": OWN_LIST,
    "create_base_model": REFUSED,
    "show_base_model": OF_ONE_OWNER,
    "base_model_files": OF_ONE_OWNER,
    "base_model_file": OF_ONE_OWNER,
    "model_progress": OWN_LIST,
    "upload_model": REFUSED,
    "delete_base_model": OF_ONE_OWNER,
    "share_base_model": OF_ONE_OWNER,
    "unshare_base_model": OF_ONE_OWNER,
    "create_model": REFUSED,
    "list_trainable": OWN_LIST,
    "show_trainable": OF_ONE_OWNER,
    "hear_client": OF_ONE_OWNER,
    "close_model": OF_ONE_OWNER,
    "ask_op": OF_ONE_OWNER,
    "list_ops": OF_ONE_OWNER,
    "show_outcome": OF_ONE_OWNER,
    "list_saved": OF_ONE_OWNER,
    "set_ttl": OF_ONE_OWNER,
    "delete_saved": OF_ONE_OWNER,
    "complete_chat": 400,
    "complete_text": 400,
    "generate_tokens": 400,
    "client_config": OWN_LIST,
    "client_dynamic_config": OWN_LIST,
    "send_telemetry": OWN_LIST,
    "server_capabilities": OWN_LIST,
    "create_session": OWN_LIST,
    "session_heartbeat": REFUSED,
    "finish_session": OF_ONE_OWNER,
    "list_sessions": OWN_LIST,
    "show_session": OF_ONE_OWNER,
    "create_sampling_session": REFUSED,
    "show_sampler": OF_ONE_OWNER,
    "sample": REFUSED,
    "cancel_future": REFUSED,
    "retrieve_future": REFUSED,
    "retrieve_futures": REFUSED,
    "create_tinker_model": REFUSED,
    "copy_weights": REFUSED,
    "load_weights": REFUSED,
    "model_info": REFUSED,
    "forward_backward": OF_ONE_OWNER,
    "optim_step": REFUSED,
    "save_weights": REFUSED,
    "save_weights_external": REFUSED,
    "save_weights_for_sampler": REFUSED,
    "list_training_runs": OWN_LIST,
    "show_training_run": OF_ONE_OWNER,
    "list_run_checkpoints": OF_ONE_OWNER,
    "list_checkpoints": OWN_LIST,
    "delete_checkpoint": OF_ONE_OWNER,
    "set_checkpoint_ttl": OF_ONE_OWNER,
    "publish_checkpoint": OF_ONE_OWNER,
    "unpublish_checkpoint": OF_ONE_OWNER,
    "weights_info": REFUSED,
    "archive_url": OF_ONE_OWNER,
    "external_weights_urls": OF_ONE_OWNER,
    "export_trace": OF_ONE_OWNER,
    "assign_project": REFUSED,
    "search_sessions": OWN_LIST,
    "show_usage": REFUSED,
    "show_storage": OWN_LIST,
    "list_workers": OWN_LIST,
    "list_queues": OWN_LIST,
    "list_budgets": OWN_LIST,
    "connect_env_worker": 426,
    "list_dead_letters": OWN_LIST,
    "show_dead_letter": OF_ONE_OWNER,
    "republish_dead_letter": OF_ONE_OWNER,
    "drop_dead_letter": OF_ONE_OWNER,
    "who_am_i": OWN_LIST,
    "create_key": 201,
    "list_keys": OWN_LIST,
    "rotate_key": OF_ONE_OWNER,
    "revoke_key": OF_ONE_OWNER,
}
"""What a user with every scope but `admin` is answered who asks for what is somebody else's."""
QUERY = {
    "run_files": "version=best",
    "run_file": "version=best&name=SHA256SUMS",
    "show_dataset": "dataset=ann/quiz",
    "dataset_rows": "dataset=ann/quiz",
    "dataset_file": "dataset=ann/quiz",
    "show_adapter": "adapter=ann/poet",
    "adapter_files": "adapter=ann/poet",
    "adapter_file": "adapter=ann/poet",
    "show_base_model": "base_model=ann/mine",
    "base_model_files": "base_model=ann/mine",
    "base_model_file": "base_model=ann/mine",
    "model_progress": f"sha256={'a' * 64}",
    "weights_progress": f"sha256={'a' * 64}",
    "upload_progress": f"sha256={'a' * 64}",
}
ANNS = {"dataset": "ann/quiz"}
ANNS_ADAPTER = {"adapter": "ann/poet"}
ANNS_MODEL = {"base_model": "ann/mine"}
BODY: dict[str, object] = {
    "set_run": {"priority": 0},
    "remove_served": {"name": "anns"},
    "delete_dataset": ANNS,
    "delete_adapter": ANNS_ADAPTER,
    "delete_base_model": ANNS_MODEL,
    "share_base_model": ANNS_MODEL,
    "unshare_base_model": ANNS_MODEL,
    "share_adapter": ANNS_ADAPTER,
    "unshare_adapter": ANNS_ADAPTER,
    "share_dataset": ANNS,
    "unshare_dataset": ANNS,
    "ask_op": {"op": {"kind": "publish"}},
    "set_ttl": {"name": "final"},
    "delete_saved": {"name": "final"},
}


@dataclass
class Callers:
    gateway: Gateway
    access: Access
    run: str
    anns_key: str
    session: str

    async def status(self, route: Route, key: Key | str | None) -> int:
        path = route.path.format(
            run=self.run,
            letter="msg_1",
            model=self.run,
            user="ann",
            key_id=self.anns_key,
            session=self.session,
            sampler=f"{self.session}:sample:0",
            worker="none",
            training=f"{self.session}:train:0",
            kind="weights",
            checkpoint="final",
            future=f"{self.run}.1",
        )
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        query, body = QUERY.get(route.name, ""), BODY.get(route.name)
        if route.name == "serve_model":
            body = {"name": "mine", "run": self.run}
        async with (
            aiohttp.ClientSession(self.gateway.url, headers=headers) as client,
            client.request(route.method, f"{path}?{query}", json=body) as response,
        ):
            return response.status

    async def key_of(self, user: str, *scopes: KeyScope) -> str:
        wanted = CreateKey(user=user, scopes=scopes)
        return (await self.access.keys.create(ADMIN, wanted)).key


@pytest_asyncio.fixture
async def callers(gateway: Gateway) -> AsyncGenerator[Callers]:
    access = Access(gateway.store)
    access.callers, access.keys, access.users = (
        gateway.services.callers,
        gateway.services.keys,
        gateway.services.users,
    )
    await access.new_key("local")
    anns = (await access.keys.listed(ADMIN, "ann"))[0].id
    session = await Wire(gateway.ann).session()
    yield Callers(gateway, access, await gateway.submit(), anns, session)


def _name(route: Route) -> str:
    return route.name


LOCKED = [route for route in ROUTES if route.needs_key]


@pytest.mark.parametrize("route", LOCKED, ids=_name)
async def test_a_route_answers_each_kind_of_key_as_the_table_says(
    callers: Callers, route: Route
) -> None:
    """One gateway for all kinds, for most of the time goes into making it."""
    await a_key_that_is_not_good_opens_nothing(callers, route)
    if isinstance(route.scope, KeyScope):
        await all_other_scopes_together_do_not_replace_the_routes_own(callers, route)
    await another_tenant_reaches_nothing_of_anns(callers, route)
    if isinstance(route.scope, KeyScope):
        await an_admin_may_use_it(callers, route)


async def a_key_that_is_not_good_opens_nothing(callers: Callers, route: Route) -> None:
    access = callers.access
    revoked = await callers.key_of("ann", KeyScope.READ)
    await access.keys.revoke(ADMIN, revoked.split("_")[1])
    gone = await access.new_key("gone")
    await access.users.disable("gone")
    bad = (None, Key.new(), revoked, await access.expired_key("ann"), gone)
    assert [await callers.status(route, key) for key in bad] == [401] * len(bad)


async def all_other_scopes_together_do_not_replace_the_routes_own(
    callers: Callers, route: Route
) -> None:
    others = [scope for scope in KeyScope if scope not in (route.scope, KeyScope.ADMIN)]
    assert await callers.status(route, await callers.key_of("ann", *others)) == 403


async def an_admin_may_use_it(callers: Callers, route: Route) -> None:
    admins = await callers.key_of("local", KeyScope.ADMIN)
    assert await callers.status(route, admins) not in (401, 403, 500)


async def another_tenant_reaches_nothing_of_anns(callers: Callers, route: Route) -> None:
    bobs = await callers.key_of("bob", *(s for s in KeyScope if s is not KeyScope.ADMIN))
    expected = 403 if route.scope is KeyScope.ADMIN else ANOTHER_TENANTS[route.name]
    assert await callers.status(route, bobs) == expected


async def test_an_admin_sees_runs_of_others_and_cancels_them(callers: Callers) -> None:
    headers = {"Authorization": f"Bearer {await callers.key_of('local', KeyScope.ADMIN)}"}
    async with aiohttp.ClientSession(callers.gateway.url, headers=headers) as admin:
        async with admin.get("/v1/runs") as response:
            assert [run["id"] for run in (await response.json())["runs"]] == [callers.run]
        async with admin.post(f"/v1/runs/{callers.run}/cancel") as response:
            assert response.status == 200


def test_the_table_names_no_route_that_there_is_not() -> None:
    assert ANOTHER_TENANTS.keys() == {r.name for r in LOCKED if r.scope is not KeyScope.ADMIN}
    assert PATH in {route.path for route in ROUTES}
