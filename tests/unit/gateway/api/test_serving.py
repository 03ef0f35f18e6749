"""Names under which models are served: what they point to, who may use them, and that none fails while it is repointed."""

import asyncio
from typing import Any

import aiohttp
import pytest
from sqlmodel import Session, col, select
from tests.support.gateway import Gateway
from tests.support.gateway_fixtures import client
from tests.support.openai_asking import chat, publish, said
from tests.support.rote_sampler import BASE, asking, ignored, post

import warren
from warren.cli.commands.runs import serving
from warren.cli.commands.runs.serve import serve as serve_command
from warren.cli.options import Gateway as GatewayOption
from warren_gateway.store.tables import Checkpoint, Model, OutboxRow, Run
from warren_schemas.episode import Generate
from warren_schemas.events import RunState

__all__ = ["asking", "client", "ignored"]


async def serve(client: aiohttp.ClientSession, **body: Any) -> tuple[int, dict[str, Any]]:
    return await post(client, "/v1/served", {"name": "helper", **body})


async def versions(client: aiohttp.ClientSession, model: str = "helper") -> set[int]:
    status, body = await chat(client, model=model, return_token_ids=True)
    assert status == 200, body
    return set(body["choices"][0]["versions"])


async def published(gateway: Gateway, version: int = 3) -> str:
    run = await gateway.submit()
    await gateway.store.transact(lambda session: publish(session, run, version))
    return run


async def test_a_name_is_a_base_model_a_policy_or_what_a_run_publishes(asking: Gateway) -> None:
    run = await published(asking)
    status, told = await serve(asking.ann, base_model=BASE)
    assert (status, told["run"], told["version"]) == (200, None, None)
    assert await versions(asking.ann) == {0}
    status, told = await serve(asking.ann, run=run, step=2)
    assert (status, told["step"], told["version"]) == (200, 2, 2)
    assert await versions(asking.ann) == {2}
    await serve(asking.ann, run=run)
    assert await versions(asking.ann) == {3}
    await asking.store.transact(lambda session: publish(session, run, 7))
    assert await versions(asking.ann) == {7}
    await serve(asking.ann, run=run, step=0)
    assert await versions(asking.ann) == {0}, "the base model, before the first step"
    tokens = {"model": "helper", "token_ids": [2, 45], "sampling_params": {"max_tokens": 2}}
    assert (await post(asking.ann, "/inference/v1/generate", tokens))[0] == 200
    async with asking.ann.get("/v1/models") as response:
        assert "helper" in [model["id"] for model in (await response.json())["data"]]
    async with asking.ann.get("/v1/models/helper") as response:
        assert response.status == 200


async def test_to_repoint_a_name_fails_nobody(
    asking: Gateway, ignored: asyncio.Queue[Generate]
) -> None:
    """Who asks meanwhile gets one of the two; who asks afterwards the new one; who asked before the old one."""
    run = await published(asking)
    await serve(asking.ann, run=run, step=1)
    under_way = asyncio.create_task(chat(asking.ann, model="helper", **said("never")))
    early = await ignored.get()
    is_over = asyncio.Event()

    async def ask() -> set[int]:
        seen = set[int]()
        while not is_over.is_set():
            seen |= await versions(asking.ann)
        return seen

    askers = [asyncio.create_task(ask()) for _ in range(8)]
    for round_ in range(20):
        step = 1 + round_ % 3
        assert (await serve(asking.ann, run=run, step=step))[0] == 200
        assert await versions(asking.ann) == {step}
    is_over.set()
    seen = set[int]().union(*await asyncio.gather(*askers))
    assert seen == {1, 2, 3}
    policy = early.spec.policy
    assert (policy.min_version, policy.url) == (1, "file:///store/model/policies/v1")
    under_way.cancel()
    await asyncio.wait([under_way])


async def test_of_two_who_make_a_name_at_once_both_are_answered(asking: Gateway) -> None:
    run = await published(asking)
    told = await asyncio.gather(*(serve(asking.ann, run=run, step=s % 4) for s in range(12)))
    assert {status for status, _ in told} == {200}
    async with asking.ann.get("/v1/served") as response:
        (view,) = (await response.json())["served"]
    assert await versions(asking.ann) == {view["version"]}


async def test_a_name_is_its_owner_s_and_of_those_who_may_read_its_run(asking: Gateway) -> None:
    run = await published(asking)
    await serve(asking.ann, run=run, step=1)
    assert (await chat(asking.bob, model="ann/helper"))[0] == 404
    assert (await serve(asking.bob, base_model=BASE))[0] == 200, "bob has one of the same name"
    assert (await post(asking.ann, f"/v1/runs/{run}/share", {"user": "bob"}))[0] == 200
    assert await versions(asking.bob, "ann/helper") == {1}
    assert await versions(asking.bob) == {0}
    async with asking.bob.get("/v1/served") as response:
        owners = [view["owner"] for view in (await response.json())["served"]]
    assert owners == ["bob", "ann"]
    async with asking.bob.get("/v1/models") as response:
        names = [model["id"] for model in (await response.json())["data"]]
    assert {"helper", "ann/helper"} <= set(names)
    assert (await serve(asking.bob, run=run, step=1))[0] == 404, "nobody else serves a run"
    for body in ({"name": "helper", "owner": "ann"}, {"name": "other"}):
        assert (await post(asking.bob, "/v1/served/remove", body))[0] == 404
    await serve(asking.ann, base_model=BASE)
    assert (await chat(asking.bob, model="ann/helper"))[0] == 404, "not of a shared run any more"


async def test_a_run_that_is_served_is_not_deleted_until_its_name_is_gone(asking: Gateway) -> None:
    run = await published(asking)

    def end(session: Session) -> None:
        session.get_one(Run, run).state = RunState.COMPLETED

    await asking.store.transact(end)
    await serve(asking.ann, run=run, step=1)
    status, body = await post(asking.ann, f"/v1/runs/{run}/delete", {})
    assert (status, body["code"]) == (409, "run_in_use")
    assert "served as helper" in body["message"]
    assert (await post(asking.ann, "/v1/served/remove", {"name": "helper"}))[0] == 200
    status, body = await chat(asking.ann, model="helper")
    assert (status, body["error"]["code"]) == (404, "model_not_found")
    assert (await post(asking.ann, f"/v1/runs/{run}/delete", {}))[0] == 200


async def test_checkpoints_are_served_once_the_run_is_over(asking: Gateway) -> None:
    run = await published(asking, 50)

    def keep_the_newest(session: Session) -> None:
        model = session.exec(select(Model).where(col(Model.run_id) == run)).one()
        model.policies = model.policies[-32:]
        url = "file:///store/model/states/step-000010"
        session.add(
            Checkpoint(
                model_id=model.id, name="step-000010", op=20, version=10, step=10, url=url,
                size_bytes=1, created_s=0.0,
            )
        )  # fmt: skip

    await asking.store.transact(keep_the_newest)
    for where in ({"step": 10}, {"checkpoint": "step-000010"}):
        status, body = await serve(asking.ann, run=run, **where)
        assert (status, body["code"]) == (409, "cannot_serve")
        assert "policies that are: steps 19 to 50" in body["message"]

    def end(session: Session) -> None:
        session.get_one(Run, run).state = RunState.COMPLETED

    await asking.store.transact(end)
    for where in ({"step": 10}, {"checkpoint": "step-000010"}):
        status, body = await serve(asking.ann, run=run, **where)
        assert (status, body["version"]) == (200, 10)
    assert await versions(asking.ann) == {10}


async def test_the_coordinator_of_a_run_that_goes_on_hears_what_to_keep(asking: Gateway) -> None:
    run = await published(asking)

    def look(session: Session) -> tuple[int, int]:
        posted = session.exec(select(OutboxRow).where(col(OutboxRow.address) == "run-changes"))
        return session.get_one(Run, run).limits_number, len(posted.all())

    before = await asking.store.transact(look)
    for _ in range(3):
        await serve(asking.ann, run=run, step=1)
    number, n_posted = await asking.store.transact(look)
    assert (number, n_posted) == (before[0] + 1, before[1] + 1), "the same again changes nothing"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": ""}, 422),
        ({"name": "a b"}, 422),
        ({"name": "a/b"}, 422),
        ({"name": "run_1"}, 422),
        ({"name": "x" * 65}, 422),
        ({"base_model": "\0"}, 422),
        ({}, 422),
        ({"run": "run_1", "base_model": BASE}, 422),
        ({"base_model": BASE, "step": 1}, 422),
        ({"run": "run_1", "step": 1, "checkpoint": "step-000001"}, 422),
        ({"run": "run_1", "step": -1}, 422),
        ({"run": "run_1", "steps": 1}, 422),
        ({"run": "run_1"}, 404),
        ({"run": "\0"}, 422),
    ],
)
async def test_what_cannot_be_served_is_told(
    gateway: Gateway, body: dict[str, Any], status: int
) -> None:
    answered, told = await serve(gateway.ann, **body)
    assert answered == status, told
    assert told["message"]


async def test_a_run_without_policies_serves_none(gateway: Gateway) -> None:
    run = await gateway.submit()
    status, told = await serve(gateway.ann, run=run, step=1)
    assert (status, told["code"]) == (409, "cannot_serve")
    status, told = await serve(gateway.ann, run=run, checkpoint="step-000001")
    assert (status, told["code"]) == (409, "cannot_serve")


async def test_nobody_serves_more_names_than_may_be(gateway: Gateway) -> None:
    for number in range(100):
        assert (await serve(gateway.ann, name=f"n{number}", base_model=BASE))[0] == 200
    status, told = await serve(gateway.ann, base_model=BASE)
    assert (status, told["code"]) == (409, "cannot_serve")
    assert (await serve(gateway.ann, name="n5", base_model="other"))[0] == 200
    assert (await serve(gateway.bob, base_model=BASE))[0] == 200


async def test_a_name_goes_before_a_base_model_and_takes_the_place_of_none(asking: Gateway) -> None:
    status, told = await serve(asking.ann, name="tiny", base_model=BASE)
    assert status == 200
    registry = asking.services.registry
    (sampler,) = registry.alive(None)
    registry.hear(sampler.model_copy(update={"worker": "sampler_2", "offers": ("tiny", "large")}))
    assert await versions(asking.ann, "tiny") == {0}
    status, told = await serve(asking.ann, name="large", base_model=BASE)
    assert (status, told["code"]) == (409, "cannot_serve")


async def test_from_python_and_the_command(
    asking: Gateway, client: warren.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await published(asking)
    last = await client.serve("helper", f"{run}@last")
    assert (last.step, last.version, last.follows) == (3, 3, False)
    following = await client.serve("helper", await client.run(run))
    assert (following.run, following.follows) == (run, True)
    with pytest.raises(
        warren.ConfigurationError, match="one of a run, a base model and an adapter"
    ):
        await client.serve("helper")
    with pytest.raises(warren.ConfigurationError, match="no checkpoint"):
        await client.serve("helper", f"{run}@best")
    with pytest.raises(warren.ConfigurationError, match="This can't be served"):
        await client.serve("no name", model=BASE)
    option = GatewayOption(client.settings.url, client.settings.api_key)
    await asyncio.to_thread(serve_command, "helper", run=f"{run}@2", gateway=option)
    await asyncio.to_thread(serving.ls, gateway=option)
    await asyncio.to_thread(serving.rm, "helper", gateway=option)
    printed = capsys.readouterr().out
    assert f"helper is {run}@2 (version 2) now" in printed
    assert f"{run}@2 (version 2)" in printed.splitlines()[-2]
    assert "helper is served no more" in printed
    assert await client.served() == ()
    with pytest.raises(warren.NotFound, match="You serve nothing as helper"):
        await client.stop_serving("helper")
