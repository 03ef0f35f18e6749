"""OpenEnv's TrainingTraces: what Warren wrote is read as it was recorded, what others wrote as they say, and what is none is refused.

`tests/ecosystems/openenv/test_traces.py` holds the same against the package.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from tests.support.factories import (
    make_episode_ended,
    make_failed_episode,
    make_tokens,
    make_transcript,
)
from tests.unit.schemas.test_reading_exports import assert_same, branched, plain, said, view_of

import warren
from warren.datasets.sources import lines, sources
from warren_schemas.datasets.exported import Exported, replayable
from warren_schemas.datasets.rows import DatasetKind
from warren_schemas.episode import Completed, EpisodeEnded, EpisodePurpose, Failed, FailureKind
from warren_schemas.exports.files import json_lines
from warren_schemas.traces.file import TracesFile
from warren_schemas.transcript import Branch

HALF = float(np.log(0.5))


def written(*items: EpisodeEnded, folder: Path) -> Path:
    with TracesFile(path := folder / "all.traces.jsonl") as file:
        assert file.write([view_of(item) for item in items]) == len(items)
    return path


def turn(prompt: list[int], sampled: list[int], **changes: Any) -> dict[str, Any]:
    return {
        "node_id": str([*prompt, *sampled]),
        "prompt_token_ids": prompt,
        "completion_token_ids": sampled,
        "per_token_logps": [HALF] * len(sampled),
        "loss_mask": [0] * len(prompt) + [1] * len(sampled),
        **changes,
    }


def trace(*turns: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    told = [each | {"metadata": metadata | each.get("metadata", {})} for each in turns]
    return {"schema_version": 1, "turns": told}


def read(folder: Path, *traces: dict[str, Any]) -> list[Exported]:
    """As an upload reads them."""
    path = folder / "theirs.jsonl"
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in traces))
    (source,) = sources(path, None)
    assert source.kind is DatasetKind.TRAJECTORIES
    return [replayable(orjson.loads(line)) for line in lines(path)]


def tailed() -> EpisodeEnded:
    """Its second conversation was begun, and nothing sampled in it; the first goes on behind what was sampled."""
    tokens = make_tokens(4)
    aside = Branch(number=0, messages=said("user", "assistant"), n_rendered=2, tokens=tokens.prompted([7, 8]))  # fmt: skip
    unsaid = make_tokens(0).prompted([1, 2, 3])
    transcript = make_transcript(messages=said("user"), tokens=unsaid, set_aside=(aside,), branch=1)
    return make_episode_ended(transcript=transcript)


@pytest.mark.parametrize("make", [plain, branched, tailed])
def test_what_was_recorded_is_read_as_it_was(
    make: Callable[[], EpisodeEnded], tmp_path: Path
) -> None:
    item = make()
    (line,) = lines(written(item, folder=tmp_path))
    ours, theirs = replayable(orjson.loads(line)), view_of(item)
    assert (ours.offset, ours.fate, ours.group_size) == (130, theirs.fate, 8)
    assert (ours.item.spec, ours.item.outcome) == (item.spec, item.outcome)
    pairs = zip(ours.item.transcript.branches, item.transcript.branches, strict=True)
    for one, other in pairs:
        assert one.messages == other.messages
        assert_same(one.tokens, other.tokens)
    whole = orjson.loads(json_lines([theirs]))
    left_out = {"prompt", "response", "conversation"}
    assert {name: whole[name] for name in whole if name not in left_out} == orjson.loads(line)


def test_each_turn_has_what_was_shown_before_it(tmp_path: Path) -> None:
    (line,) = written(branched(), folder=tmp_path).read_bytes().splitlines()
    turns = orjson.loads(line)["turns"]
    ids = branched().transcript.tokens.ids_T.tolist()
    assert [each["prompt_token_ids"] + each["completion_token_ids"] for each in turns[:2]] == [
        ids[:3],
        ids[:6],
    ]
    assert {each["metadata"]["reward"] for each in turns} == {-2.5}


def test_words_stand_beside_the_tokens_of_their_turn(tmp_path: Path) -> None:
    messages = said("system", "user", "assistant", "tool", "assistant")
    tokens = make_tokens(6, mask_T=np.array([0, 0, 1, 0, 1, 1], np.uint8))
    item = make_episode_ended(transcript=make_transcript(messages=messages, tokens=tokens))
    (line,) = written(item, folder=tmp_path).read_bytes().splitlines()
    turns = orjson.loads(line)["turns"]
    shown = [[m["role"] for m in each["request"]["messages"]] for each in turns]
    assert shown == [["system", "user"], ["system", "user", "assistant", "tool"]]
    answer = {"role": "assistant", "content": "assistant"}
    assert turns[1]["response"]["choices"] == [{"message": answer, "finish_reason": "stop"}]


def test_what_can_be_no_trace_is_left_out(tmp_path: Path) -> None:
    unprompted = make_tokens(2, mask_T=np.ones(2, np.uint8))
    unsampled = make_tokens(2, mask_T=np.zeros(2, np.uint8))
    left_out = [
        make_failed_episode(),
        *(
            make_episode_ended(transcript=make_transcript(tokens=tokens))
            for tokens in (unprompted, unsampled)
        ),
    ]
    with TracesFile(path := tmp_path / "all.traces.jsonl") as file:
        assert file.write([view_of(item) for item in (*left_out, plain())]) == 1
    assert len(list(lines(path))) == 1


def test_a_reward_that_was_changed_counts(tmp_path: Path) -> None:
    found = orjson.loads(written(plain(), folder=tmp_path).read_bytes())
    for each in found["turns"]:
        each["metadata"]["reward"] = 7.5
    (changed,) = read(tmp_path, found)
    assert isinstance(changed.item.outcome, Completed) and changed.item.outcome.reward == 7.5


def test_turns_of_others_go_on_from_what_they_repeat(tmp_path: Path) -> None:
    """A turn that goes on from an earlier one begins a conversation: what it shows of that is learned there alone."""
    turns = (
        turn([1, 2], [3]),
        turn([1, 2, 3, 4], [5, 6], loss_mask=[0, 0, 0, 0, 1, 0]),
        turn([1, 2, 3, 9], [8]),
        turn([1, 2, 3, 4, 5, 6, 7], [7]),
    )
    (found,) = read(tmp_path, trace(*turns, reward=0.5))
    first, second = found.item.transcript.branches
    assert first.tokens.ids_T.tolist() == [1, 2, 3, 4, 5, 6, 7, 7]
    assert first.tokens.mask_T.tolist() == [0, 0, 1, 0, 1, 0, 0, 1]
    assert first.tokens.versions_T.tolist() == [-1, -1, 0, -1, 0, -1, -1, 0]
    assert first.tokens.logprobs_T.tolist()[2:6] == [np.float32(HALF), 0, np.float32(HALF), 0]
    assert (second.tokens.ids_T.tolist(), second.tokens.mask_T.tolist()) == (
        [1, 2, 3, 9, 8],
        [0, 0, 0, 0, 1],
    )
    assert found.item.transcript.branch == 0
    assert [(t.reward, t.branch) for t in found.item.transcript.turns] == [
        (None, 0),
        (None, 0),
        (None, 1),
        (0.5, 0),
    ]


def test_words_of_others_are_shown_as_they_came(tmp_path: Path) -> None:
    asked = {"role": "user", "content": [{"type": "text", "text": "Guess."}]}
    calls = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    answer = {"role": "assistant", "content": "5"}
    first = {"choices": [{"message": calls, "finish_reason": "tool_calls"}]}
    last = {"choices": [{"message": answer, "finish_reason": "length"}]}
    shown = [asked, calls, {"role": "tool", "content": "wrong"}]
    (found,) = read(
        tmp_path,
        trace(
            turn([1], [2], request={"messages": [asked]}, response=first),
            turn([1, 2, 3], [4], request={"messages": shown}, response=last),
        ),
    )
    told = [(m.role, m.content, m.is_action) for m in found.item.transcript.messages]
    assert told == [
        ("user", "Guess.", False),
        ("assistant", '[{"id":"1"}]', True),
        ("tool", "wrong", False),
        ("assistant", "5", True),
    ]
    assert [t.is_cut for t in found.item.transcript.turns] == [False, True]


def test_what_others_say_of_rewards_and_groups_counts(tmp_path: Path) -> None:
    one = turn([1], [2])
    group = {"group": "g", "group_size": 2}
    params = {"temperature": 0.5, "top_k": -1, "seed": 9}
    found = read(
        tmp_path,
        trace(one),
        trace(one, reward=2),
        trace(one, reward=0.25, sampling_params=params, member=0, **group),
        trace(one, member=1, **group),
    )
    demonstrated, alone, scored, unscored = [each.item for each in found]
    assert (demonstrated.spec.purpose, alone.spec.purpose) == (
        EpisodePurpose.DEMONSTRATE,
        EpisodePurpose.TRAIN,
    )
    assert demonstrated.spec.group != alone.spec.group
    assert isinstance(alone.outcome, Completed) and alone.outcome.reward == 2.0
    assert (scored.spec.group, scored.spec.task, scored.task_id) == (
        unscored.spec.group,
        unscored.spec.task,
        "g",
    )
    assert (scored.spec.sampling.temperature, scored.spec.sampling.is_truncated) == (0.5, False)
    assert isinstance(unscored.outcome, Failed)
    assert unscored.outcome.kind is FailureKind.NO_REWARD
    assert [each.group_size for each in found] == [1, 1, 2, 2]


ONE = turn([1, 2], [3])


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"schema_version": 2, "turns": [ONE]}, "schema_version"),
        ({"schema_version": 1, "turns": []}, "no token of it is learned"),
        (trace(ONE | {"loss_mask": [0, 0, 0]}), "no token of it is learned"),
        (trace(ONE, ONE), "two turns have the same node_id"),
        (trace(ONE | {"loss_mask": [1, 0, 1]}), "turns.0: loss_mask is 1 in the prompt"),
        (trace(ONE | {"loss_mask": [0, 1]}), "loss_mask has 2, and prompt and completion 3 tokens"),
        (trace(ONE | {"per_token_logps": []}), "per_token_logps has 0, and the completion 1 tokens"),
        (trace(ONE | {"per_token_logps": [0.5]}), "turns.0.per_token_logps.0"),
        (trace(ONE | {"prompt_token_ids": []}), "turns.0.prompt_token_ids"),
        (trace(ONE | {"completion_token_ids": [2**40]}), "turns.0.completion_token_ids.0"),
        (trace(ONE | {"reward": 1.0}), "turns.0.reward: unknown key"),
        (trace(ONE, reward="good"), "metadata.reward"),
        (trace(ONE, group="a b", member=0, group_size=1), "metadata.group"),
        (trace(ONE, group="a", reward=1.0), "group, member and group_size are given together"),
        (trace(ONE, group="a", member=2, group_size=2), "member 2 of a group of 2"),
        (trace(ONE, sampling_params={"temperature": -1}), "metadata.sampling_params: temperature"),
        (trace(ONE, sampling_params={"presence_penalty": 0.5}), "presence_penalty changes what"),
        (trace(ONE, ONE | {"node_id": "b", "metadata": {"reward": 2.0}}, reward=1.0), "turns.1.metadata.reward: an earlier turn says otherwise"),
        (trace(ONE, warren={"branch": 0, "versions": [1]}), "the first turn is missing"),
        (trace(ONE, warren={"branch": 0}), "turns.0.metadata.warren: versions"),
        (trace(ONE, warren={"branch": 0, "versions": [1, 2], "episode": {}, "tails": [[]]}), "it is of another turn than this one of 1 tokens"),
        (trace(ONE, turn([9, 2, 3], [4]), warren={"branch": 0, "versions": [1], "episode": {}, "tails": [[]]}), "turns.1.prompt_token_ids: they don't begin with"),
    ],
)  # fmt: skip
def test_what_is_none_is_refused_with_its_line(
    wrong: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(warren.ConfigurationError) as refused:
        read(tmp_path, trace(ONE), wrong)
    assert f"{tmp_path}/theirs.jsonl, line 2: " in str(refused.value)
    assert reason in str(refused.value)


def test_a_first_line_with_a_key_too_many_is_a_wrong_trace_and_no_task(tmp_path: Path) -> None:
    with pytest.raises(warren.ConfigurationError, match="line 1: reward: unknown key"):
        read(tmp_path, trace(ONE) | {"reward": 1.0})


def test_a_row_among_traces_is_refused_and_traces_may_be_tasks(tmp_path: Path) -> None:
    with pytest.raises(warren.ConfigurationError, match="line 2: turns: missing; prompt: unknown"):
        read(tmp_path, trace(ONE), {"prompt": "a"})
    (source,) = sources(tmp_path / "theirs.jsonl", DatasetKind.TASKS)
    assert next(lines(source.path, source.kind)) == orjson.dumps(trace(ONE))
