# pyright: reportUnknownMemberType=false
"""What vLLM is started with, for this model, machine and settings; and what of it is told."""

import logging
from pathlib import Path

import pytest
from transformers import Qwen3Config

from warren_gpu_worker.sampler.engines.vllm.startup import engine_arguments, told_context
from warren_gpu_worker.settings import GpuWorkerSettings, VllmSettings
from warren_gpu_worker.trainer.child.model_factory import EngineConfig

CONTEXT = 4096


@pytest.fixture
def folder(tmp_path: Path) -> str:
    Qwen3Config(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=CONTEXT,
    ).save_pretrained(tmp_path)
    return str(tmp_path)


def arguments(folder: str, device: str, **changes: object) -> dict[str, object]:
    vllm = VllmSettings.model_validate(changes)
    settings = GpuWorkerSettings(
        base_models={"base": folder}, device=device, vllm=vllm, max_batch_tokens=1024
    )
    return engine_arguments(folder, settings)


class TestContext:
    def test_on_a_gpu_vllm_takes_what_the_memory_holds(self, folder: str) -> None:
        assert arguments(folder, "cuda")["max_model_len"] == -1

    @pytest.mark.parametrize(("asked", "given"), [(512, 512), (2 * CONTEXT, CONTEXT)])
    def test_a_limit_is_kept_and_is_never_more_than_the_models(
        self, folder: str, asked: int, given: int
    ) -> None:
        assert arguments(folder, "cuda", max_context=asked)["max_model_len"] == given

    def test_on_a_cpu_the_cache_has_to_hold_it(self, folder: str) -> None:
        longest = arguments(folder, "cpu")["max_model_len"]
        assert isinstance(longest, int)
        assert 1024 <= longest < CONTEXT
        assert arguments(folder, "cpu", max_context=100)["max_model_len"] == 100

    def test_less_than_the_models_is_told(
        self, folder: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING):
            assert told_context(CONTEXT, folder) == CONTEXT
            assert not caplog.records
            assert told_context(1000, folder) == 1000
        assert "1000 tokens together, and the model could take 4096" in caplog.text


@pytest.mark.parametrize(("device", "dtype"), [("cuda", "bfloat16"), ("cpu", "float32")])
def test_the_type_of_weights_is_what_the_device_is_good_at(
    folder: str, device: str, dtype: str
) -> None:
    assert arguments(folder, device)["dtype"] == dtype
    settings = GpuWorkerSettings(base_models={"base": folder}, device=device)
    assert EngineConfig.of(settings).dtype == dtype
    asked = settings.model_copy(update={"dtype": "float16"})
    assert EngineConfig.of(asked).dtype == engine_arguments(folder, asked)["dtype"] == "float16"


def test_kernels_and_the_caches_type_may_be_chosen(folder: str) -> None:
    assert "attention_backend" not in arguments(folder, "cuda")
    chosen = arguments(folder, "cuda", attention_backend="TRITON_ATTN", kv_cache_dtype="fp8")
    assert chosen["attention_backend"] == "TRITON_ATTN"
    assert chosen["kv_cache_dtype"] == "fp8"
    assert "kv_cache_dtype" not in arguments(folder, "cpu")
