# pyright: reportUnknownMemberType=false
"""What vLLM is started with, for this model, machine and settings; and what of it is told."""

import logging
from importlib.util import find_spec
from pathlib import Path

import pytest
from transformers import Qwen3Config, Qwen3ForCausalLM

from warren_gpu_worker.sampler.engines.choice import EngineUnavailable, open_engine
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_gpu_worker.sampler.engines.vllm.memory_share import told_share
from warren_gpu_worker.sampler.engines.vllm.rendezvous import Place
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
    vllm = VllmSettings.model_validate({"gpu_memory_share": 0.9, **changes})
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
    settings = GpuWorkerSettings(
        base_models={"base": folder}, device=device, vllm=VllmSettings(gpu_memory_share=0.9)
    )
    assert EngineConfig.of(settings).dtype == dtype
    asked = settings.model_copy(update={"dtype": "float16"})
    assert EngineConfig.of(asked).dtype == engine_arguments(folder, asked)["dtype"] == "float16"


def test_kernels_and_the_caches_type_may_be_chosen(folder: str) -> None:
    assert "attention_backend" not in arguments(folder, "cuda")
    chosen = arguments(folder, "cuda", attention_backend="TRITON_ATTN", kv_cache_dtype="fp8")
    assert chosen["attention_backend"] == "TRITON_ATTN"
    assert chosen["kv_cache_dtype"] == "fp8"
    assert "kv_cache_dtype" not in arguments(folder, "cpu")


def test_vllm_is_spread_cached_and_recorded_as_asked(folder: str) -> None:
    given = arguments(folder, "cuda")
    assert given["tensor_parallel_size"] == given["pipeline_parallel_size"] == 1
    assert (given["enable_prefix_caching"], given["enforce_eager"]) == (True, False)
    changes = {"tensor_parallel": 4, "prefix_caching": False, "cuda_graphs": False}
    given = arguments(folder, "cuda", **changes)
    assert given["tensor_parallel_size"] == 4
    assert (given["enable_prefix_caching"], given["enforce_eager"]) == (False, True)


def test_on_several_machines_vllm_starts_by_its_own_options(folder: str) -> None:
    vllm = VllmSettings(tensor_parallel=16)
    settings = GpuWorkerSettings(
        base_models={"base": folder},
        device="cuda",
        roles=frozenset({"sampler"}),
        machines=2,
        rendezvous="10.0.0.1:29400",
        vllm=vllm,
    )
    place = Place(node_rank=1, nnodes=2, master_addr="10.0.0.1", master_port=1234)
    given = engine_arguments(folder, settings, place)
    of_place = {name: given[name] for name in ("nnodes", "node_rank", "master_addr", "master_port")}
    assert of_place == {
        "nnodes": 2,
        "node_rank": 1,
        "master_addr": "10.0.0.1",
        "master_port": 1234,
    }
    assert (given["tensor_parallel_size"], given["distributed_executor_backend"]) == (16, "mp")
    assert "nnodes" not in engine_arguments(folder, settings)


class TestShareOfMemory:
    """The model's weights are 0.04 of a GPU that has 25 times their bytes."""

    @pytest.fixture
    def weights(self, folder: str) -> int:
        config = Qwen3Config.from_pretrained(folder)
        model = Qwen3ForCausalLM(config).bfloat16()
        model.save_pretrained(folder)
        return 2 * sum(parameter.numel() for parameter in model.parameters())

    def test_a_sampler_alone_has_most_of_it(self, folder: str) -> None:
        assert self.share(folder, 0, roles="sampler") == 0.9

    def test_a_trainer_beside_it_has_what_it_needs(self, folder: str, weights: int) -> None:
        plain = self.share(folder, 25 * weights, micro_batch_tokens=1)
        assert 0.84 <= plain < 0.9 - 0.04
        long_passes = self.share(folder, 25 * weights, micro_batch_tokens=1 << 24)
        assert long_passes == pytest.approx(0.45, abs=0.02)

    def test_both_have_to_fit(self, folder: str, weights: int) -> None:
        with pytest.raises(ValueError, match=r"to be trained by LoRA, beside vLLM's .* two GPUs"):
            self.share(folder, 2 * weights)

    def test_what_depends_on_the_model_is_told(
        self, folder: str, weights: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        share = self.share(folder, 25 * weights)
        assert f"vLLM takes {share:.2f} of the GPU's" in caplog.text

    def share(self, folder: str, total_bytes: int, **changes: object) -> float:
        told = {"base_models": {"base": folder}, "device": "cuda", **changes}
        return told_share(folder, GpuWorkerSettings.model_validate(told), lambda: total_bytes)


@pytest.mark.skipif(
    find_spec("vllm") is None, reason="the reason would be that it is not installed"
)
def test_a_pipeline_is_refused_on_a_cpu_and_not_replaced(folder: str) -> None:
    vllm = VllmSettings(pipeline_parallel=2)
    settings = GpuWorkerSettings(
        base_models={"base": folder}, device="cpu", vllm=vllm, on_new_weights="drain"
    )
    with pytest.raises(EngineUnavailable, match="no pipeline of several stages on a CPU, and no"):
        open_engine(folder, settings, Endings([], str))
