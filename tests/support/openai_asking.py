"""Asking a gateway in the manner of OpenAI."""

from typing import Any

import aiohttp
from sqlmodel import Session, select
from tests.support.rote_sampler import BASE, post

from warren_gateway.store.tables import Model

CHAT: dict[str, Any] = {"model": BASE, "messages": [{"role": "user", "content": "?"}]}
TEXT: dict[str, Any] = {"model": BASE, "prompt": "?"}


def said(content: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


async def chat(client: aiohttp.ClientSession, **changes: Any) -> tuple[int, dict[str, Any]]:
    return await post(client, "/v1/chat/completions", CHAT | changes)


async def text(client: aiohttp.ClientSession, **changes: Any) -> tuple[int, dict[str, Any]]:
    return await post(client, "/v1/completions", TEXT | changes)


def publish(session: Session, run: str) -> None:
    model = session.exec(select(Model).where(Model.run_id == run)).one()
    model.policy_version, model.policy_url = 2, "file:///store/model/policies/v2"
    session.add(model)
