"""`warren gpu-worker`: wrong input has one clear line, and help stays cheap."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.processes import free_port

from warren_gpu_worker.commands import gpu_worker

TAKING_TURNS = {"vllm_sleep": "while_training", "roles": "sampler,trainer"}


def test_importing_the_command_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'transformers', 'pydantic', 'aio_pika', 'warren_schemas'}"
    code = f"import sys, warren_gpu_worker.commands; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"broker": None}, "needs a broker"),
        ({"base_model": ()}, "which base models"),
        ({"base_model": ("/nowhere",)}, "/nowhere is no folder"),
        ({"roles": "samplr"}, "did you mean sampler"),
        ({"dtype": "float23"}, "dtype"),
        ({"devices": 0}, "devices"),
        ({"max_batch": 70_000}, "at most 65535"),
        ({"gpu_memory_share": 1.5}, "gpu_memory_share"),
        ({"max_adapter_rank": 7}, "max_adapter_rank"),
        ({"device": "cuda:1", "devices": 2}, "cuda:1 is one device, and devices is 2"),
        ({"vllm_sleep": "often"}, "vllm.sleep"),
        ({"vllm_sleep": "while_training"}, "this worker is a sampler alone"),
        (TAKING_TURNS | {"device": "cpu"}, "no sleep mode on a CPU"),
        (TAKING_TURNS | {"engine": "transformers"}, "transformers has no sleep mode"),
        (TAKING_TURNS | {"devices": 2}, "spread over 2 devices"),
        ({"broker": "http://localhost"}, "no broker URL"),
        ({"broker": f"amqp://ann:secret@127.0.0.1:{free_port()}"}, "no answer from RabbitMQ"),
    ],
)
def test_wrong_input_is_told_in_one_line(
    arguments: dict[str, object],
    told: str,
    tiny_models: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    good = {"broker": "memory:", "base_model": (tiny_models["warren/tiny"],), "roles": "sampler"}
    with pytest.raises(SystemExit) as left:
        gpu_worker(**{**good, **arguments})  # type: ignore[arg-type]
    first_line = capsys.readouterr().err.splitlines()[0]
    assert left.value.code == 1
    assert first_line.startswith("error: ")
    assert told in first_line
    assert "secret" not in first_line


def test_a_model_that_cannot_be_loaded_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SystemExit):
        gpu_worker(broker="memory:", base_model=(f"mine={tmp_path}",), roles="sampler")
    assert "error: mine can't be sampled from" in capsys.readouterr().err


def test_a_model_whose_weights_are_damaged_is_told(
    tiny_models: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(tiny_models["warren/tiny"], folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(SystemExit):
        gpu_worker(broker="memory:", base_model=(f"mine={folder}",), roles="sampler")
    assert "error: mine can't be sampled from: " in capsys.readouterr().err
