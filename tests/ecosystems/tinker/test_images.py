"""A prompt with an image, sampled by the Tinker SDK, unmodified, from a deployment that is killed meanwhile."""

import json
import os
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ecosystems.tinker.table import BASE, ROOT, Up, deployed
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.seeing_models import (
    BEGIN,
    BOS,
    END,
    IMAGE,
    noise,
    seeing_logprobs,
    seeing_model,
)

from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.base_models.vision_inputs import Placed, VisionInputs
from warren_gpu_worker.sampler.engines.port import PolicyKey, Request
from warren_schemas.config import Sampling

__all__ = ["seeing_model"]

pytestmark = [pytest.mark.ecosystem_all, several_waits]
PYTHON = str(ROOT / ".venv-tinker" / "bin" / "python")
PROGRAM = Path(__file__).with_name("seeing.py")
BEFORE, N_IMAGE, BEHIND = [BOS, 20, BEGIN], 6, [END, 30, 31]
PROMPT = [*BEFORE, *[IMAGE] * N_IMAGE, *BEHIND]
TARGET = 40
EXACT = 1e-3


@pytest.fixture
def up(tmp_path: Path, seeing_model: str) -> Generator[Up]:
    with deployed(tmp_path, seeing_model) as up:
        yield up


def command(up: Up, image: Path) -> list[str]:
    image.write_bytes(noise(3))
    around = [",".join(map(str, ids)) for ids in (BEFORE, BEHIND)]
    return [
        PYTHON,
        "-X",
        "faulthandler",
        str(PROGRAM),
        up.url,
        up.key,
        BASE,
        str(image),
        *around,
        str(N_IMAGE),
    ]


def killed(up: Up) -> None:
    assert up.process is not None
    os.killpg(up.process.pid, signal.SIGKILL)
    up.process.wait()
    up.start()


def test_samples_are_those_of_a_plain_forward_also_where_all_of_the_deployment_was_killed(
    up: Up, tmp_path: Path, seeing_model: str
) -> None:
    told: list[dict[str, Any]] = []
    program = subprocess.Popen(command(up, tmp_path / "a.png"), stdout=subprocess.PIPE, text=True)
    with program:
        for line in program.stdout or ():
            if line.startswith("again"):
                killed(up)
            else:
                told.append(json.loads(line))
        assert program.wait(PATIENCE_S) == 0
    assert len(told) == 2
    plain = Plain(seeing_model)
    for each in told:
        for ids, logprobs in zip(each["tokens"], each["logprobs"], strict=True):
            np.testing.assert_allclose(logprobs, plain.behind(PROMPT, ids), atol=EXACT)
        np.testing.assert_allclose(each["prompt"], plain.behind(PROMPT[:1], PROMPT[1:]), atol=EXACT)
        named = [TARGET, *each["drawn"]]
        own = [plain.behind(PROMPT[:-1], [token])[0] for token in named]
        np.testing.assert_allclose([each["target"], *each["drawn_logprobs"]], own, atol=EXACT)


class Plain:
    """One forward of the model, with transformers' own positions."""

    def __init__(self, folder: str) -> None:
        self._model = load_base(folder)
        self._placed = (Placed(len(BEFORE), VisionInputs(folder).see(noise(3))),)

    def behind(self, before: list[int], ids: list[int]) -> "np.ndarray[Any, np.dtype[np.float32]]":
        """Logprobs of these tokens behind those of a prompt."""
        prompt_T = np.array(before, np.int32)
        asked = Request(0, PolicyKey("m"), prompt_T, Sampling(), pictures=self._placed)
        return seeing_logprobs(self._model, asked, np.array(ids, np.int32))
