"""Which tasks a split of `verifiers` and `verifiers_v0` has, on the real packages: never those of `train` by another name."""

import pytest
from tests.ecosystems.verifiers.test_verifiers import CLASSES, TASKSETS, installed, shown
from tests.support.hosting import Player, hosting
from tests.support.interacting import spec

from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Answer, Observed, Refused
from warren_schemas.episode import FailureKind, TaskRef

__all__ = ["installed"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
ONE_SPLIT = "one_split_v0"


async def begun(host: Host, taskset: str, split: str, **config: object) -> Answer:
    of = spec(environment_config={"taskset": taskset, **config}, task=TaskRef(index=0, split=split))
    return await Player(host, of).reset()


def asked(answer: Answer) -> str:
    assert isinstance(answer, Observed), answer
    return answer.messages[-1][1]


def refused(answer: Answer) -> str:
    assert isinstance(answer, Refused), answer
    assert answer.kind is FailureKind.ENVIRONMENT_CONFIG
    assert not answer.is_retryable
    return answer.reason


@shown("verifiers v0", "evaluation")
async def test_rows_of_train_are_played_as_another_split_where_its_own_arguments_made_them() -> (
    None
):
    made: dict[str, object] = {"split_arguments": {"test": {"first": 7}, "trian": {}}}
    async with hosting(CLASSES["verifiers_v0"]) as host:
        assert asked(await begun(host, ONE_SPLIT, "train", **made)) == "0?"
        assert asked(await begun(host, ONE_SPLIT, "test", **made)) == "7?"
        for config, split in ((made, "trian"), ({}, "test")):
            reason = refused(await begun(host, ONE_SPLIT, split, **config))
            assert f"no eval_dataset, which {split} would play: make one" in reason
            assert reason.endswith(f"split_arguments.{split} what loads other rows as its dataset")


@shown("verifiers v1", "evaluation")
async def test_a_taskset_is_told_what_another_split_than_train_has() -> None:
    taskset, named = TASKSETS["verifiers"], {"split_arguments": {"test": dict[str, str]()}}
    async with hosting(CLASSES["verifiers"]) as host:
        reason = refused(await begun(host, taskset, "test"))
        assert "test has the same tasks as train" in reason
        assert isinstance(await begun(host, taskset, "test", **named), Observed)
