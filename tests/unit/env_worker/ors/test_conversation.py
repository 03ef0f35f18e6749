"""Prompts with roles, and environments that compare whole groups."""

from typing import Any

import pytest
from tests.support.fake_ors import FakeOrs

from warren.environment import ChatMessage, ConfigError, Context, TaskError
from warren_env_worker.environments.ors.environment import Ors
from warren_schemas.config import ToolFormat
from warren_schemas.images import Image

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PICTURE = {"type": "image", "data": PNG, "mimeType": "image/png"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words, "detail": None}


def turn(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "blocks": blocks, "detail": None}


def result(*blocks: dict[str, Any], is_error: bool = False) -> dict[str, Any]:
    return {"type": "tool_result", "tool_call_id": "1", "blocks": blocks, "is_error": is_error}


CALL = {"type": "tool_call", "id": "1", "name": "look", "input": {"place": 2}}
DIALOGUE = [
    turn("system", text("You open vaults.")),
    turn("user", text("Open it."), PICTURE),
    turn("assistant", {"type": "reasoning", "text": "Hm."}, text("I look."), CALL, CALL),
    turn("user", result(PICTURE, text("7")), result(is_error=True), text("Go on.")),
    turn("system", text("Be quick.")),
    turn("user"),
]


async def begun(server: FakeOrs, **config: Any) -> tuple[list[ChatMessage], str]:
    async with server.serving() as url:
        environment = Ors(url, "vault", **config)
        environment.context = Context.derive(1)
        try:
            shown = await environment.reset(3, environment.context)
            return shown, environment.system_prompt() or ""
        finally:
            await environment.close()


def quoted(*parts: str) -> ChatMessage:
    return ChatMessage(role="assistant", content="\n".join(parts), is_quoted=True)


THOUGHT = "<think>\nHm.\n</think>"


@pytest.mark.parametrize(
    ("form", "call"),
    [
        (ToolFormat.HERMES, '<tool_call>\n{"name": "look", "arguments": {"place": 2}}\n</tool_call>'),
        (ToolFormat.CODE, "```look\n2\n```"),
    ],
)  # fmt: skip
async def test_a_conversation_is_shown_with_its_roles(form: ToolFormat, call: str) -> None:
    server = FakeOrs(conversation=DIALOGUE, knows_conversations=True)
    shown, system = await begun(server, system_prompt="Think first.", tool_format=form)
    picture = Image(media_type="image/png", base64=PNG)
    assert shown == [
        ChatMessage(role="user", content="Open it.", images=(picture,)),
        quoted(THOUGHT, "I look.", call, call),
        ChatMessage(role="tool", content="7", images=(picture,)),
        ChatMessage(role="tool", content="Error: "),
        ChatMessage(role="user", content="Go on."),
    ]
    assert system.startswith("Think first.\n\nYou open vaults.\nBe quick.\n\n# Tools")
    assert "/vault/prompt" not in server.paths()


@pytest.mark.parametrize("knows", [False, True])
async def test_a_server_without_conversations_is_asked_for_its_prompt(knows: bool) -> None:
    """Also one that says that it has them."""
    server = FakeOrs(knows_conversations=knows)
    shown, _ = await begun(server)
    assert shown == [ChatMessage(role="user", content="Open it.")]
    assert server.paths().count("/vault/messages") == knows


async def test_a_session_that_is_lost_is_begun_anew_with_the_same_conversation() -> None:
    server = FakeOrs(conversation=DIALOGUE, knows_conversations=True)
    async with server.serving() as url:
        environment = Ors(url, "vault")
        environment.context = Context.derive(1)
        await environment.reset(3, environment.context)
        server.lose_sessions()
        step = await environment.step(
            '<tool_call>{"name": "open", "arguments": {"code": "1"}}</tool_call>'
        )
        await environment.close()
    assert (step.reward, server.paths().count("/vault/messages")) == (1.0, 2)


async def test_an_image_in_a_system_message_is_not_left_out_in_silence() -> None:
    server = FakeOrs(conversation=[turn("system", PICTURE)], knows_conversations=True)
    with pytest.raises(TaskError, match="an image in a system message"):
        await begun(server)


async def test_group_scores_are_left_out_only_where_the_config_says_so() -> None:
    with pytest.raises(
        ConfigError, match=r"vault scores whole groups .* without_group_scores: true"
    ):
        await begun(FakeOrs(scores_groups=True))
    shown, _ = await begun(FakeOrs(scores_groups=True), without_group_scores=True)
    assert shown
    with pytest.raises(ConfigError, match="without_group_scores has no effect: vault scores no"):
        await begun(FakeOrs(), without_group_scores=True)
