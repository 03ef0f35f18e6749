"""A sampler of a model that sees, with its engine in a child process, at the end of its queues."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.support.episodes import EnvironmentSide, environment_side, first_turn, next_turn, policy
from tests.support.sampler_stage import sampler, settings_of, shared
from tests.support.seeing_models import IMAGE, noise, seeing_model

from warren_broker.memory import open_hub
from warren_schemas.episode import Failed, FailureKind
from warren_schemas.images import Image
from warren_schemas.transcript import ChatMessage

__all__ = ["seeing_model"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def side(
    seeing_model: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[EnvironmentSide]:
    folder: Path = tmp_path_factory.mktemp("stage")
    settings = settings_of({"warren/tiny": seeing_model}, folder)
    async with (
        open_hub(folder / "broker") as hub,
        sampler(hub, settings.model_copy(update={"engine": "transformers"})),
        environment_side(hub) as side,
    ):
        yield side


def shown(content: str, *files: bytes) -> ChatMessage:
    images = tuple(Image.of(file) for file in files)
    return ChatMessage(role="user", content=content, images=images)


@shared
async def test_turns_with_images_go_on_and_a_broken_one_fails_alone(side: EnvironmentSide) -> None:
    good, broken = (
        first_turn(policy(), shown("what?", noise(1))),
        first_turn(policy(), shown("what?", noise(1)[:50])),
    )
    await side.send([good, broken])
    (one,) = await side.steps(1)
    (ended,) = await side.ends(1)
    assert one.envelope.episode == good.envelope.episode
    assert ended.envelope.episode == broken.envelope.episode
    assert isinstance(ended.outcome, Failed)
    assert (ended.outcome.kind, ended.outcome.retryable) == (FailureKind.INVALID_REQUEST, False)
    assert "image 1 of the chat can't be shown" in ended.outcome.reason

    (two,) = await side.ask([next_turn(one, shown("and?", noise(2, 56, 56)))])
    before, after = one.transcript.tokens, two.transcript.tokens
    assert after.ids_T[: len(before)].tolist() == before.ids_T.tolist()
    assert int(((after.ids_T == IMAGE) & (after.mask_T == 0)).sum()) == 6 + 4
    assert two.transcript.n_rendered == len(two.transcript.messages) == 4
