"""`warren gpu-worker`: wrong input is told clearly, and help stays cheap."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic_core import PydanticUndefined
from tests.support.processes import free_port

from warren.cli.app import build, run
from warren.cli.guard import guarded
from warren_gpu_worker.options import GPU_DEFAULTS
from warren_gpu_worker.settings import GpuWorkerOptions, VllmSettings

SAMPLER = ["--roles", "sampler"]
SPREAD = ["--machines", "2", "--rendezvous", "10.0.0.1:29400"]
JOINING = [*SPREAD, "--join"]
TAKING_TURNS = ["--vllm-sleep", "while_training", "--roles", "sampler,trainer"]


def told_by(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What the command, which refuses these options, says."""
    tokens = ["gpu-worker", *options]
    assert guarded(lambda: run(tokens), tokens) in (1, 2)
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def test_importing_the_command_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'transformers', 'aio_pika', 'uvloop', 'numpy'}"
    code = f"import sys, warren_gpu_worker.commands; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--base-model", "/nowhere"], "/nowhere is no folder"),
        (["--roles", "samplr"], "did you mean sampler"),
        (["--dtype", "float23"], "dtype"),
        (["--devices", "0"], "devices"),
        (["--max-batch", "70000"], "at most 65535"),
        (["--gpu-memory-share", "1.5"], "gpu_memory_share"),
        (["--max-adapter-rank", "7"], "max_adapter_rank"),
        (["--device", "cuda:1", "--devices", "2"], "cuda:1 is one device, and devices is 2"),
        (["--vllm-sleep", "often"], "vllm.sleep"),
        (["--vllm-sleep", "while_training"], "this worker is a sampler alone"),
        ([*TAKING_TURNS, "--device", "cpu"], "no sleep mode on a CPU"),
        ([*TAKING_TURNS, "--engine", "transformers"], "transformers has no sleep mode"),
        ([*TAKING_TURNS, "--devices", "2"], "spread over 2 devices"),
        ([*TAKING_TURNS, "--tensor-parallel", "2"], "vLLM has several, and the trainer one"),
        (["--tensor-parallel", "2", "--engine", "transformers"], "tensor_parallel is vLLM's"),
        (["--pipeline-parallel", "2"], "take drain"),
        (["--kv-cache-dtype", "fp8", "--device", "cpu"], "a CPU has the model's own type"),
        (["--data-parallel", "2", "--may-load", "a", "--roles", "sampler,trainer"], "one sampler"),
        (["--may-load", "warren/tiny-lora"], "a sampler and a trainer"),
        (
            ["--machines", "2"],
            "which is HOST:PORT, for example 10.0.0.1:29400, and this is missing",
        ),
        (["--machines", "2", "--rendezvous", "here"], "and this is here"),
        (["--rendezvous", "10.0.0.1:29400"], "say how many by machines"),
        (["--join"], "where they meet by rendezvous"),
        (
            [*JOINING, "--may-load", "warren/tiny-lora", "--roles", "sampler,trainer"],
            "on one machine",
        ),
        ([*SPREAD, "--tensor-parallel", "3"], "an equal part of them; take a multiple of 2"),
        ([*SPREAD, "--tensor-parallel", "2", "--data-parallel", "2"], "machines spreads one"),
        ([*SPREAD, "--engine", "transformers"], "2 machines sample by vLLM"),
        (["--adapter", "mine"], "--adapter mine is not NAME=FOLDER"),
        (["--broker", "http://localhost"], "no broker URL"),
        (["--broker", f"amqp://ann:secret@127.0.0.1:{free_port()}"], "no answer from RabbitMQ"),
    ],
)
def test_wrong_input_is_told(
    options: list[str],
    told: str,
    tiny_models: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    good = {"--broker": "memory:", "--base-model": tiny_models["warren/tiny"], "--roles": "sampler"}
    for name in good.keys() & set(options):
        del good[name]
    said = told_by(capsys, *(word for pair in good.items() for word in pair), *options)
    assert said.startswith("error: ")
    assert told in said
    assert "secret" not in said


def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "needs a broker" in told_by(capsys, "--base-model", "warren/tiny")
    assert "needs a base model" in told_by(capsys, "--broker", "memory:")


def test_every_setting_is_an_option_and_the_default_is_the_settings_own() -> None:
    arguments = build()["gpu-worker"].assemble_argument_collection()
    options = {argument.field_info.name: argument for argument in arguments}
    for name, field in (*GpuWorkerOptions.model_fields.items(), *VllmSettings.model_fields.items()):
        assert name in options, name
        if field.default is not PydanticUndefined:
            assert options[name].field_info.default == field.default
    assert GPU_DEFAULTS.model_fields_set == set()


def test_a_model_that_cannot_be_loaded_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text("{}")
    said = told_by(capsys, "--broker", "memory:", "--base-model", f"mine={tmp_path}", *SAMPLER)
    assert "error: mine can't be sampled from" in said


def test_a_model_whose_weights_are_damaged_is_told(
    tiny_models: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(tiny_models["warren/tiny"], folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    said = told_by(capsys, "--broker", "memory:", "--base-model", f"mine={folder}", *SAMPLER)
    assert "error: mine can't be sampled from: " in said
