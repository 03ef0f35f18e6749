"""Answers of the real server (`ors-sdk` 0.1.0), byte by byte as it sent them."""

import json
from pathlib import Path

import pytest

from warren.connection.sse import SseParser
from warren_env_worker.environments.ors.answers import (
    PROMPT,
    REPLY,
    TOOLS,
    Done,
    Refused,
    digest,
    message,
)
from warren_env_worker.environments.tool_calls import arguments_of, as_told
from warren_schemas.chat.tool_formats import Call

RECORDED = Path(__file__).with_name("recorded")


def events(name: str, n_at_once: int = 65_536) -> list[tuple[str, str]]:
    parser, recorded = SseParser(), (RECORDED / f"{name}.sse").read_bytes()
    pieces = (recorded[at : at + n_at_once] for at in range(0, len(recorded), n_at_once))
    return [(event.name, event.data) for piece in pieces for event in parser.feed(piece)]


def reply(name: str) -> Done | Refused:
    told = [data for kind, data in events(name) if kind in ("chunk", "end")]
    return REPLY.validate_json("".join(told))


@pytest.mark.parametrize("n_at_once", [1, 7, 4096])
def test_a_long_answer_is_whole_wherever_its_bytes_were_cut(n_at_once: int) -> None:
    assert events("much", n_at_once) == events("much")
    assert [kind for kind, _ in events("much")] == ["task_id", "chunk", "end"]
    answer = reply("much")
    assert isinstance(answer, Done)
    shown = message("tool", answer.output.blocks)
    assert shown.content == "é " * 2100 + "end"
    assert [image.media_type for image in shown.images] == ["image/png"]


def test_no_reward_is_no_reward_of_0() -> None:
    rewards = [
        answer.output.reward
        for name in ("much", "look", "open")
        if isinstance(answer := reply(name), Done)
    ]
    assert rewards == [None, 0.1, 1.0]


def test_an_end_a_refusal_and_an_exception() -> None:
    opened, refused = reply("open"), reply("nope")
    assert isinstance(opened, Done)
    assert opened.output.finished
    assert refused == Refused(ok=False, error="'nope' is not a valid tool")
    assert events("kaput")[-1] == ("error", "kaput")


def test_a_new_session_has_its_id_in_its_first_event() -> None:
    (first, session), last = events("create_session")
    assert (first, last) == ("task_id", ("end", ""))
    assert len(session) == 36


def test_tools_of_all_and_of_the_task_are_told_with_their_schemas() -> None:
    tools = TOOLS.validate_json((RECORDED / "task_tools.json").read_bytes())
    known = {tool.name: tool for tool in tools.told}
    assert list(known) == ["kaput", "look", "much", "open", "secret", "slow", "extra"]
    assert as_told(known["look"]).parameters == {
        "properties": {"place": {"title": "Place", "type": "integer"}},
        "required": ["place"],
        "type": "object",
    }
    assert as_told(known["kaput"]).parameters == {"type": "object", "properties": {}}


def test_arguments_are_read_as_the_tool_expects_them() -> None:
    told = TOOLS.validate_json((RECORDED / "task_tools.json").read_bytes()).told
    tools = {tool.name: tool for tool in told}
    plain = Call("look", {"place": "2"}, is_plain=True)
    assert arguments_of(plain, tools["look"]) == {"place": 2}
    assert arguments_of(Call("open", {"code": "1003"}, is_plain=True), tools["open"]) == {
        "code": "1003"
    }
    assert arguments_of(Call("open", text="1003"), tools["open"]) == {"code": "1003"}


def test_the_prompt_shows_its_image() -> None:
    blocks = PROMPT.validate_json((RECORDED / "prompt.json").read_bytes())
    shown = message("user", blocks)
    assert (shown.content, len(shown.images)) == ("Look.", 1)


def test_answers_that_tell_the_same_have_one_digest_whatever_else_they_hold() -> None:
    answer = json.loads("".join(data for _, data in events("look")[1:]))
    before = digest(REPLY.validate_python(answer))
    answer["output"]["metadata"] = {"took_s": 0.3}
    assert digest(REPLY.validate_python(answer)) == before
    answer["output"]["reward"] = 0.2
    assert digest(REPLY.validate_python(answer)) != before
