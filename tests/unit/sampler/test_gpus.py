"""Samplers of one worker have GPUs of their own, and their children see no others."""

import pytest

from warren_gpu_worker.sampler.supervisor.gpus import VISIBLE, own_gpus, samplers_of
from warren_gpu_worker.settings import GpuWorkerSettings


def settings(device: str, seed: int | None = None, **vllm: int) -> GpuWorkerSettings:
    given = {"base_models": {"base": "/base"}, "device": device, "seed": seed, "vllm": vllm}
    return GpuWorkerSettings.model_validate(given)


def visible(given: GpuWorkerSettings, names: str = "") -> str | None:
    _, variables = own_gpus(given, {VISIBLE: names} if names else {})
    return variables.get(VISIBLE)


def test_one_sampler_takes_the_device_that_it_finds() -> None:
    (only,) = samplers_of(settings("cuda"))
    assert only.device == "cuda"
    assert visible(only) is None
    assert visible(only, "3,4") is None


def test_a_device_that_is_named_is_the_first_one_that_its_child_sees() -> None:
    given = settings("cuda:1")
    told, variables = own_gpus(given, {VISIBLE: "4,5,6"})
    assert (told.device, variables) == ("cuda", {VISIBLE: "5"})
    assert visible(given) == "1"


def test_several_share_no_gpu_and_no_seed() -> None:
    each = list(samplers_of(settings("cuda:2", seed=7, data_parallel=2, tensor_parallel=2)))
    assert [visible(one) for one in each] == ["2,3", "4,5"]
    assert [one.seed for one in each] == [7, 8]
    assert ["trainer" in one.roles for one in each] == [True, False]


def test_on_a_cpu_there_is_nothing_to_share_out() -> None:
    each = list(samplers_of(settings("cpu", data_parallel=3)))
    assert [one.device for one in each] == ["cpu"] * 3
    assert [visible(one) for one in each] == [None] * 3


def test_more_than_there_are_is_told() -> None:
    *_, last = samplers_of(settings("cuda", data_parallel=2, tensor_parallel=2))
    with pytest.raises(ValueError, match=r"needs 2 GPUs from there on, and .* names 3"):
        own_gpus(last, {VISIBLE: "0,1,2"})


def test_of_a_sampler_on_several_machines_each_shows_its_part() -> None:
    spread = settings("cuda:1", tensor_parallel=4).model_copy(
        update={"machines": 2, "roles": frozenset({"sampler"})}
    )
    assert visible(spread, "0,1,2") == "1,2"
    beside_a_trainer = spread.model_copy(update={"roles": frozenset({"sampler", "trainer"})})
    assert visible(beside_a_trainer) == "1,2,3,4"


def test_machines_of_a_trainer_are_not_those_of_a_second_sampler_beside_it() -> None:
    given = settings("cuda", data_parallel=2).model_copy(update={"machines": 2})
    assert [one.sampler_machines for one in samplers_of(given)] == [1, 1]


def test_several_machines_sample_from_one_base_model() -> None:
    two = {"one": "/one", "other": "/other"}
    given = {"base_models": two, "roles": ["sampler"], "machines": 2, "rendezvous": "10.0.0.1:1"}
    with pytest.raises(ValueError, match="2 machines sample from one base model, and here are 2"):
        GpuWorkerSettings.model_validate({**given, "vllm": {"tensor_parallel": 2}})
    assert GpuWorkerSettings.model_validate({**given, "roles": ["sampler", "trainer"]})
