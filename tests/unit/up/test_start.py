"""How a site comes up: its options, what it says meanwhile, and when it counts as ready."""

import asyncio
from pathlib import Path

import pytest
from tests.support.factories import make_heartbeat

from warren.cli.app import build
from warren.display.output import PlainOutput
from warren_broker.memory import open_hub
from warren_broker.worker.heartbeat import announce
from warren_env_worker.settings import EnvWorkerSettings
from warren_gateway.settings import GatewayOptions
from warren_gpu_worker.base_models import UnknownBaseModel, resolve_base_models
from warren_gpu_worker.settings import GpuWorkerOptions
from warren_schemas.control import WorkerRole
from warren_schemas.ids import WorkerId
from warren_up.failures import told
from warren_up.readiness import workers_ready
from warren_up.site import Site
from warren_up.start_view import StartView


class Heard:
    """What a listener was told."""

    def __init__(self) -> None:
        self.ready_parts: list[tuple[str, str]] = []

    def doing(self, part: str, what: str) -> None: ...

    def ready(self, part: str, what: str) -> None:
        self.ready_parts.append((part, what))


class Lines(PlainOutput):
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.pulsed = asyncio.Event()

    def line(self, text: str = "", style: str = "") -> None:
        self.lines.append(text)
        if text.endswith(" s)"):
            self.pulsed.set()


def options_of(*words: str) -> tuple[GpuWorkerOptions, EnvWorkerSettings, GatewayOptions]:
    _, bound, _ = build().parse_args(["up", *words], print_error=False, exit_on_error=False)
    given = bound.arguments
    gpu, envs = given.get("gpu"), given.get("environments")
    gateway = given.get("gateway")
    assert isinstance(gpu, GpuWorkerOptions)
    return gpu, envs or EnvWorkerSettings(), gateway or GatewayOptions.model_construct()


def test_up_takes_the_options_of_its_parts() -> None:
    gpu, envs, gateway = options_of(
        *("--engine", "transformers", "--device", "cpu", "--dtype", "bfloat16"),
        *("--gpu-memory-share", "0.4", "--capacity", "64", "--archive", "file:///archive"),
    )
    assert (gpu.engine, gpu.device, gpu.dtype) == ("transformers", "cpu", "bfloat16")
    assert gpu.vllm.gpu_memory_share == 0.4
    assert (envs.capacity, gateway.archive_url) == (64, "file:///archive")


def test_variables_hold_for_up_as_for_the_parts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WARREN_CHECKPOINT_URL", "s3://bucket/warren")
    gpu, _, _ = options_of()
    (tmp_path / "config.json").write_text("{}")
    models = (f"mine={tmp_path}",)
    settings = Site(tmp_path, 1, base_models=models, gpu_options=gpu).gpu_worker(lambda _: None)
    assert settings.checkpoint_url == "s3://bucket/warren"
    assert settings.log_dir == tmp_path / "logs"
    default = Site(tmp_path, 1, base_models=models).gpu_worker(lambda _: None)
    assert default.checkpoint_url == (tmp_path / "checkpoints").as_uri()


async def test_a_site_is_ready_when_every_base_model_is_offered(tmp_path: Path) -> None:
    heard = Heard()
    async with open_hub(tmp_path) as hub:
        broker = hub.client("test")
        ready = asyncio.create_task(
            workers_ready(broker, heard, roles={"sampler", "trainer"}, base_models=["a", "b", "c"])
        )
        beats = [
            (WorkerRole.ENVIRONMENT, ("guess",)),
            (WorkerRole.TRAINER, ("a", "b", "c")),
            (WorkerRole.SAMPLER, ("b",)),
            (WorkerRole.SAMPLER, ("b", "c")),
            (WorkerRole.SAMPLER, ("a", "b", "c")),
        ]
        for role, offers in beats:
            beat = make_heartbeat(offers=offers).model_copy(
                update={"role": role, "worker": WorkerId(role.value)}
            )
            assert not ready.done()
            before = len(heard.ready_parts)
            while len(heard.ready_parts) == before:
                await announce(broker, beat)
                await asyncio.sleep(0)
        await ready
        await broker.close()
    assert heard.ready_parts == [
        ("environment", "guess"), ("trainer", "a, b, c"),
        ("sampler", "b"), ("sampler", "c"), ("sampler", "a"),
    ]  # fmt: skip


async def test_what_is_waited_for_is_said_again_and_again() -> None:
    output = Lines()
    view = StartView(output, pulse_s=0.01)
    view.doing("sampler", "loading torch and warren/tiny")
    view.doing("trainer", "loading torch")
    view.ready("trainer", "warren/tiny")
    telling = asyncio.create_task(view.keep_telling())
    for _ in range(2):
        await output.pulsed.wait()
        output.pulsed.clear()
    telling.cancel()
    assert output.lines[:3] == [
        "  … sampler      loading torch and warren/tiny",
        "  … trainer      loading torch",
        "  ✓ trainer      warren/tiny",
    ]
    assert output.lines[3].strip().startswith("sampler: loading torch and warren/tiny (")


def test_a_base_model_that_cannot_be_had_says_what_was_tried_and_that_a_folder_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    heard: list[str] = []
    with pytest.raises(UnknownBaseModel) as caught:
        resolve_base_models(["no-such/model"], tmp_path, tell=heard.append)
    assert heard == ["downloading no-such/model from the Hugging Face hub"]
    error = told("gpu-worker", caught.value, tmp_path / "log")
    assert "Hugging Face hub did not give it (" in error.message
    option = error.message.rpartition("as well: ")[2].split()
    build().parse_args(["up", *option], print_error=False, exit_on_error=False)
    assert option == ["--base-model", "no-such/model=/path/to/folder"]
