"""The base class, contexts, and playing without a worker."""

import ast
import random
from collections.abc import Sequence
from typing import Any

import pytest

import warren.environment as module
from warren.environment import ChatMessage, ConfigError, Context, Env, NoDemonstrations, StepResult
from warren.testing import play
from warren_env_worker.environments.echo import MOST_LETTERS, Echo


class Chat(Env[str]):
    """Async, with a system prompt and tasks."""

    def __init__(self) -> None:
        self.is_closed = False

    def tasks(self, split: str) -> Sequence[str]:
        return [f"{split} a", f"{split} b"]

    def system_prompt(self) -> str:
        return "Be kind."

    async def reset(self, task: str, ctx: Context) -> list[ChatMessage]:
        return [ChatMessage(role="user", content=task)]

    async def step(self, action: str) -> StepResult:
        return StepResult("go on", reward=0.5, truncated=action == "stop")

    async def close(self) -> None:
        self.is_closed = True


def test_members_share_the_rng_and_have_one_of_their_own() -> None:
    members = [Context.derive(7, "train", 3, member) for member in range(4)]
    assert len({member.rng.random() for member in members}) == 1
    assert len({member.member_rng.random() for member in members}) == 4
    assert len({member.demonstration_rng(0).random() for member in members}) == 4


def test_tasks_splits_and_seeds_have_rngs_of_their_own() -> None:
    contexts = [
        Context.derive(7, "train", 3),
        Context.derive(8, "train", 3),
        Context.derive(7, "test", 3),
        Context.derive(7, "train", 4),
    ]
    assert len({context.seed for context in contexts}) == 4
    assert all(0 <= context.seed < 2**63 for context in contexts)


def test_demonstrations_differ_by_turn_and_come_again_the_same() -> None:
    context = Context.derive(7)
    first, second = (context.demonstration_rng(turn).random() for turn in (0, 1))
    assert first != second
    assert context.demonstration_rng(0).random() == first


def test_contexts_are_pinned() -> None:
    """A replay may happen on a worker of another version: seeds must not move."""
    assert Context.derive(1, "train", 2, 3).seed == PINNED


def test_playing_an_async_environment() -> None:
    chat = Chat()
    words = iter(["hello", "stop"])
    episode = play(chat, lambda _: next(words), split="dev", index=1)
    assert [(m.role, m.content) for m in episode.messages] == [
        ("system", "Be kind."),
        ("user", "dev b"),
        ("assistant", "hello"),
        ("user", "go on"),
        ("assistant", "stop"),
        ("user", "go on"),
    ]
    assert episode.reward == 1.0
    assert chat.is_closed


def test_playing_stops_at_max_turns() -> None:
    assert len(play(Chat(), lambda _: "hello", max_turns=5).results) == 5


def test_a_level_is_refused_where_there_are_none() -> None:
    with pytest.raises(ConfigError, match="Echo has no levels"):
        play(Echo(), lambda _: "a", level=1)


def test_an_episode_that_fails_is_closed() -> None:
    closed = list[Env[Any]]()

    class Failing(Echo):
        async def step(self, action: str) -> StepResult:  # pyright: ignore[reportIncompatibleMethodOverride]
            raise ValueError(action)

        def close(self) -> None:
            closed.append(self)

    with pytest.raises(ValueError, match="a word"):
        play(Failing(), lambda _: "a word")
    assert len(closed) == 1


def test_without_demonstrate_there_are_none() -> None:
    with pytest.raises(NoDemonstrations, match="Chat has no demonstrate"):
        Chat().demonstrate(random.Random(0))


def test_the_example_in_the_docstring_works() -> None:
    example = (module.__doc__ or "").split("A whole one:")[1].split("\nHost it")[0]
    namespace: dict[str, Any] = {"random": random}
    exec(compile(ast.parse(_dedented(example)), "example", "exec"), namespace)  # noqa: S102 - it is our own
    episode = play(namespace["Echo"](), lambda shown: shown[0].content.removeprefix("Say "))
    assert episode.reward == 1.0


def _dedented(text: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in text.splitlines())


PINNED = 1609216330489598451
"""The seed of the third task of a run with seed 1."""


@pytest.mark.parametrize("length", [0, MOST_LETTERS + 1, 300_000_000])
def test_a_word_that_would_fill_the_memory_of_a_shared_process_is_refused(length: int) -> None:
    with pytest.raises(ConfigError, match=f"length must be 1 to {MOST_LETTERS}"):
        Echo(length=length)
