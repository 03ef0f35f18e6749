"""Asking a gateway in the manner of OpenAI."""

from typing import Any

import aiohttp
from sqlmodel import Session, select
from tests.support.rote_sampler import BASE, post

from warren_gateway.store.tables import Model, Run

CHAT: dict[str, Any] = {"model": BASE, "messages": [{"role": "user", "content": "?"}]}
TEXT: dict[str, Any] = {"model": BASE, "prompt": "?"}


def said(content: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


async def chat(client: aiohttp.ClientSession, **changes: Any) -> tuple[int, dict[str, Any]]:
    return await post(client, "/v1/chat/completions", CHAT | changes)


async def text(client: aiohttp.ClientSession, **changes: Any) -> tuple[int, dict[str, Any]]:
    return await post(client, "/v1/completions", TEXT | changes)


def publish(session: Session, run: str, version: int = 2, first: int = 1) -> None:
    """As if each step of the run had made one."""
    session.get_one(Run, run).step = version
    model = session.exec(select(Model).where(Model.run_id == run)).one()
    model.policy_version = version
    model.policy_url = f"file:///store/model/policies/v{version}"
    model.policies = [(step, step) for step in range(first, version + 1)]
    session.add(model)


def start_with_adapter(session: Session, run: str) -> None:
    """As if the run's config had named one that GPU workers offer."""
    model = session.exec(select(Model).where(Model.run_id == run)).one()
    model.spec = {**model.spec, "update": {"kind": "lora", "start_adapter": "mine"}}
    session.add(model)
