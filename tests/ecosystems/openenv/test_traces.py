"""TrainingTraces of Warren and of the package `openenv` 0.10.0: it takes what Warren writes, and Warren trains on what it writes."""

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import numpy as np
import orjson
import pytest
from tests.ecosystems.openenv.test_openenv import server
from tests.ecosystems.real_server import ROOT, RealServer
from tests.ecosystems.whole_run import lengthen
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import PATIENCE_S, several_waits
from tests.unit.schemas.test_reading_exports import branched, plain, view_of
from tests.unit.schemas.test_traces import trace, turn

import warren
from warren.datasets.sources import lines
from warren.streams.export import export
from warren_broker.port import Broker
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.datasets.exported import replayable
from warren_schemas.episode import Completed, EpisodeEnded
from warren_schemas.exports.files import json_lines
from warren_schemas.operator_policy import TRUSTING
from warren_schemas.traces.file import TracesFile
from warren_schemas.traces.reading import row_of_trace
from warren_schemas.traces.shape import NotATrace

__all__ = ["server"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
PROGRAM = Path(__file__).with_name("traces.py")
ENVIRONMENT = "openenv=warren_env_worker.environments.openenv.environment:OpenEnv"


def package(*arguments: str | Path) -> str:
    """What the package's side of this test prints."""
    python = ROOT / ".venv-openenv" / "bin" / "python"
    command = [str(part) for part in (python, PROGRAM, *arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("make", [plain, branched])
def test_what_warren_writes_comes_back_from_the_package_as_it_was(
    make: Callable[[], EpisodeEnded], tmp_path: Path
) -> None:
    """Tokens, masks, logprobs, versions, sampling masks and rewards, bit by bit."""
    with TracesFile(ours := tmp_path / "ours.traces.jsonl") as file:
        assert file.write([view_of(make())]) == 1
    package("pass", ours, theirs := tmp_path / "theirs.jsonl")
    (row,) = map(orjson.loads, lines(theirs))
    whole = orjson.loads(json_lines([view_of(make())]))
    left_out = {"prompt", "response", "conversation"}
    assert row == {name: whole[name] for name in whole if name not in left_out}


def test_what_the_package_captures_is_read_with_its_masks_and_logprobs(tmp_path: Path) -> None:
    path = tmp_path / "captured.jsonl"
    captured = json.loads(package("capture", path))
    rewards = list[float]()
    for line, (sequence,) in zip(lines(path), captured, strict=True):
        item = replayable(orjson.loads(line)).item
        tokens = item.transcript.tokens
        assert tokens.ids_T.tolist() == sequence["input_ids"]
        assert tokens.mask_T.tolist() == sequence["loss_mask"]
        assert tokens.logprobs_T.tobytes() == np.array(sequence["logprobs"], np.float32).tobytes()
        assert [m.content for m in item.transcript.messages if m.is_action] == [
            f"answer {number}" for number in range(3)
        ]
        rewards.append(cast("Completed", item.outcome).reward)
    assert rewards == [1.0, 0.25]


def test_what_the_package_refuses_is_refused_and_nothing_else(tmp_path: Path) -> None:
    good = turn([1, 2], [3, 4])
    changes: list[dict[str, Any]] = [
        {}, {"loss_mask": [0, 0, 0, 1]}, {"per_token_logps": [0, -1]}, {"metadata": {"a": [1]}}, {"node_id": ""},
        {"loss_mask": [1, 0, 1, 1]}, {"loss_mask": [0, 0, 1]}, {"loss_mask": [0, 0, 1, 2]}, {"per_token_logps": [0.5, -1.0]},
        {"per_token_logps": [-1.0]}, {"prompt_token_ids": []}, {"prompt_token_ids": [1, -2]}, {"completion_token_ids": ["3", 4]},
        {"reward": 1.0}, {"metadata": None},
    ]  # fmt: skip
    traces = [trace(good) | {"turns": [good | change]} for change in changes]
    traces += [
        trace(good, good),
        trace(good) | {"schema_version": 2},
        trace(good) | {"reward": 1.0},
    ]
    path = tmp_path / "judged.jsonl"
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in traces))
    assert json.loads(package("judge", path)) == [
        is_taken(line) for line in path.read_bytes().splitlines()
    ]


def is_taken(line: bytes) -> bool:
    try:
        row_of_trace(line, 1)
    except NotATrace:
        return False
    return True


@pytest.mark.shows("OpenEnv", "several turns")
@several_waits
async def test_a_run_is_trained_anew_on_what_the_package_made_of_its_traces(
    server: RealServer, tmp_path: Path
) -> None:
    """The weights are those of a replay of its recording, bit by bit; and what was captured is fine-tuned on and replayed."""

    async def env_worker(broker: Broker) -> None:
        settings = EnvWorkerSettings(environments=(ENVIRONMENT,), only_named=True)
        await serve_env_worker(broker, settings, policy=TRUSTING)

    site = tiny_site(tmp_path / "home", lambda: in_process(tmp_path / "streams"))
    lengthen(Path(site.gpu.base_models["warren/tiny"]))
    ours, theirs = tmp_path / "ours.traces.jsonl", tmp_path / "theirs.jsonl"
    package("capture", captured := tmp_path / "captured.jsonl")
    async with site.running(site.gpu_worker, env_worker) as client:
        run = await client.train(config(server))
        await run.result()
        played = [view async for view in run.trajectories()]
        assert await export(run.trajectories(), ours) == (len(played), 0)
        package("pass", ours, theirs)
        dataset = await client.datasets.upload(theirs, "traces")
        replays = [await client.replay(source, config(server)) for source in (run, dataset)]
        of_stream, of_traces = [await replay.result() for replay in replays]
        assert weights_of(of_stream) == weights_of(of_traces)
        assert of_traces.updates == of_stream.updates > 0

        uploaded = await client.datasets.upload(captured, "captured")
        sft = {"dataset": uploaded.reference, "epochs": 1, "episodes_per_step": 2}
        tuned = await client.train({"model": MODEL, "sft": sft, "limits": {"steps": 0}})
        reinforced = await client.replay(uploaded, config(server, group_size=2, groups_per_step=1))
        results = [await tuned.result(), await reinforced.result()]
        assert [(each.episodes, each.updates) for each in results] == [(2, 0), (2, 1)]
        assert len({weights_of(each) for each in results}) == 2


MODEL = {"base": "warren/tiny", "update": {"kind": "full"}}


def config(server: RealServer, *, group_size: int = 4, groups_per_step: int = 2) -> dict[str, Any]:
    """An episode is rewarded by what the policy says: untrained, it rarely says the same."""
    of = {"url": f"{server.url}talk/", "patience_s": PATIENCE_S, "shown": ["text"]}
    return {
        "model": MODEL,
        "environments": [{"name": "openenv", "config": of, "max_turns": 3}],
        "sampling": {"max_tokens": 4},
        "algorithm": {
            "group_size": group_size,
            "groups_per_step": groups_per_step,
            "max_staleness": 0,
        },
        "limits": {"steps": 2},
    }


def weights_of(result: warren.RunResult) -> str:
    """A digest of the exact bits of the newest policy."""
    assert result.policy_url is not None
    files = sorted(Path(urlsplit(result.policy_url).path).glob("*.safetensors"))
    assert files
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
