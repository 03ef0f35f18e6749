"""Names of models in the manner of OpenAI: base models, and the policies of one's own runs."""

import aiohttp
import pytest
from sqlmodel import Session, select
from tests.support.gateway import Gateway
from tests.support.openai_asking import chat, publish, said, start_with_adapter
from tests.support.rote_sampler import BASE, asking, ignored

from warren_gateway.access.caller import Viewer
from warren_gateway.inference.served import NoSuchModel
from warren_gateway.store.tables import Model, Run

__all__ = ["asking", "ignored"]


async def test_a_trained_policy_is_named_by_its_run_and_seen_by_its_owner(asking: Gateway) -> None:
    run = await asking.submit()
    await asking.store.transact(lambda session: publish(session, run))
    for name, version in ((run, 2), (f"{run}@1", 1), (f"{run}@0", 0)):
        status, body = await chat(asking.ann, model=name, return_token_ids=True)
        assert (status, body["choices"][0]["versions"]) == (200, [version, version])
    assert await models(asking.ann) == [BASE, run, f"{run}@2"]
    assert await models(asking.bob) == [BASE]
    for client, name in (
        (asking.bob, run),
        (asking.ann, f"{run}@3"),
        (asking.ann, f"{run}@x"),
        (asking.ann, f"{run}@"),
        (asking.ann, "nobody/knows"),
    ):
        status, body = await chat(client, model=name)
        assert (status, body["error"]["code"]) == (404, "model_not_found")
        async with client.get(f"/v1/models/{name.replace('/', '%2F')}") as response:
            assert response.status == 404


async def models(client: aiohttp.ClientSession) -> list[str]:
    async with client.get("/v1/models") as response:
        names = [model["id"] for model in (await response.json())["data"]]
    for name in names:
        async with client.get(f"/v1/models/{name.replace('/', '%2F')}") as response:
            assert (await response.json())["id"] == name
    return names


async def test_a_pinned_version_lies_beside_the_newest(gateway: Gateway) -> None:
    run = await gateway.submit()
    await gateway.store.transact(lambda session: publish(session, run))
    served = gateway.services.served
    newest, first = [await served.policy(Viewer("ann"), name) for name in (run, f"{run}@1")]
    assert (newest.url, newest.pinned) == ("file:///store/model/policies/v2", False)
    assert (first.url, first.pinned) == ("file:///store/model/policies/v1", True)


async def test_a_step_without_an_update_has_the_policy_before_it(gateway: Gateway) -> None:
    run, served = await gateway.submit(), gateway.services.served

    def publish_some(session: Session, first_version: int) -> None:
        publish(session, run, first_version + 1)
        session.get_one(Run, run).step = 9
        model = session.exec(select(Model).where(Model.run_id == run)).one()
        model.policies = [(3, first_version), (6, first_version + 1)]

    async def url_at(step: int) -> str | None:
        return (await served.policy(Viewer("ann"), f"{run}@{step}")).url

    await gateway.store.transact(lambda session: publish_some(session, 1))
    folder = "file:///store/model/policies"
    assert [await url_at(step) for step in (0, 2, 3, 5, 6, 9)] == [
        None, None, f"{folder}/v1", f"{folder}/v1", f"{folder}/v2", f"{folder}/v2"
    ]  # fmt: skip
    await gateway.store.transact(lambda session: publish_some(session, 41))
    assert await url_at(5) == f"{folder}/v41"
    for step in (2, 10):  # no longer kept, and not yet there
        with pytest.raises(NoSuchModel):
            await served.policy(Viewer("ann"), f"{run}@{step}")


async def test_a_pinned_version_that_is_gone_is_not_found(asking: Gateway) -> None:
    run = await asking.submit()
    await asking.store.transact(lambda session: publish(session, run))
    status, body = await chat(asking.ann, model=f"{run}@1", **said("fail policy_unavailable"))
    assert (status, body["error"]["code"]) == (404, "model_not_found")


async def test_version_0_of_a_run_that_starts_with_an_adapter_is_never_the_base_model(
    gateway: Gateway,
) -> None:
    run, served = await gateway.submit(), gateway.services.served
    await gateway.store.transact(lambda session: start_with_adapter(session, run))
    coming = await served.policy(Viewer("ann"), run)
    assert (coming.url, coming.min_version) == (None, 1), "samplers say policy_unavailable"
    with pytest.raises(NoSuchModel):
        await served.policy(Viewer("ann"), f"{run}@0")
    for published in (0, 2):
        await gateway.store.transact(lambda session, v=published: publish(session, run, v, first=0))
        newest, first = [await served.policy(Viewer("ann"), name) for name in (run, f"{run}@0")]
        assert newest.url == f"file:///store/model/policies/v{published}"
        assert (first.url, first.min_version) == ("file:///store/model/policies/v0", 0)
