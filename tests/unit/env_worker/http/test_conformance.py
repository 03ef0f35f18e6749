"""What `warren env check --url` finds of servers that don't keep to the protocol."""

from typing import Any

import pytest
from tests.support.fake_env_server import FakeEnvServer

from warren_env_worker.check.conformance import Looks
from warren_env_worker.check.finding import Finding, Mark
from warren_env_worker.environments.http.server import EnvServer
from warren_env_worker.permissions.permissions import TRUSTED


async def findings_of(server: FakeEnvServer, split: str = "train") -> list[Finding]:
    async with server.serving() as url:
        asked = EnvServer(TRUSTED.service(url, None), patience_s=0.1, answer_s=10.0)
        try:
            return [finding async for finding in Looks(asked, {}, split).findings()]
        finally:
            await asked.close()


def wrong(findings: list[Finding]) -> list[str]:
    return [f"{f.what}: {f.told}" for f in findings if f.mark is not Mark.GOOD]


async def test_a_server_that_keeps_to_it_passes_without_a_word_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    findings = await findings_of(FakeEnvServer())
    assert [record for record in caplog.records if record.name.startswith("warren")] == []
    assert wrong(findings) == []
    assert len(findings) == 8
    (of_score,) = [finding for finding in findings if "score" in finding.what]
    assert of_score.told == "none is asked for"


async def test_a_score_is_asked_for_twice_once_the_episode_is_over() -> None:
    server = FakeEnvServer(begun={"scores": True})
    findings = await findings_of(server)
    assert wrong(findings) == []
    (of_score,) = [finding for finding in findings if "score" in finding.what]
    assert of_score.told == ""
    last = [path.rpartition("/")[2] for _, path, _ in server.asked if "-score" in path][-6:]
    assert last[:-1] == ["steps", "steps", "steps", "score", "score"]


async def test_each_check_has_episodes_of_its_own() -> None:
    """A server that keeps those of an earlier one, of another config perhaps, would show them again."""
    once, again = FakeEnvServer(), FakeEnvServer()
    for server in (once, again):
        assert wrong(await findings_of(server)) == []
    assert once.counts
    assert not once.counts.keys() & again.counts.keys()


@pytest.mark.parametrize(
    ("faulty", "split", "told"),
    [
        ({"description": {"protocol": "mine", "name": "x", "splits": {"train": 1}}}, "train", "describes itself: "),
        ({}, "test", "test is not among train, endless; give --split"),
        ({"forgets_turns": True}, "train", "turn 1 was played twice"),
        ({"begun": {"scores": True}, "judges_anew": True}, "train", "asked for twice is the same: the second one differs"),
        ({"stepped": {"bonus": 1}}, "train", "bonus: Extra inputs are not permitted"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_found(faulty: dict[str, Any], split: str, told: str) -> None:
    assert any(told in found for found in wrong(await findings_of(FakeEnvServer(**faulty), split)))
