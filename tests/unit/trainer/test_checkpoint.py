"""Checkpoints: going on from one equals never having stopped; anything else is refused."""

import errno
import os
import resource
from pathlib import Path

import pytest
import torch
from fsspec.implementations.local import (  # pyright: ignore[reportMissingTypeStubs]
    LocalFileSystem,
)
from peft import PeftModel
from safetensors import SafetensorError
from tests.support.trainer import (
    BASE,
    FULL,
    LORA,
    MODEL,
    SPECS,
    apply_all,
    digest,
    done,
    engine_for,
    failed,
    forward_backward,
    opened,
    optim_step,
    random_batch,
    save,
    some_ops,
    weights_of,
)
from transformers import AutoModelForCausalLM

from warren_gpu_worker.atomic_folder import list_folders
from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.base_models.vocabulary import folder_digest
from warren_gpu_worker.trainer.child.checkpoint import policies_url, states_url
from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.trainer.child.model_factory import EngineConfig
from warren_gpu_worker.trainer.errors import reason_of
from warren_schemas.config import LoraUpdate
from warren_schemas.ids import ModelId
from warren_schemas.training import ModelSpec, PublishPolicy, SaveState


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("place", ["disk", "memory"])
@pytest.mark.parametrize("k", [1, 2, 3, 7, 12])
def test_going_on_from_a_checkpoint_equals_never_having_stopped(
    base_folder: Path, tmp_path: Path, spec: ModelSpec, place: str, k: int
) -> None:
    """At any op: also in the middle of a window, and where a window has failed."""
    url = str(tmp_path) if place == "disk" else f"memory://{tmp_path.name}"
    ops = some_ops(14)
    ops[4] = forward_backward(random_batch(1, (1, 1)))
    ops.insert(k, SaveState(name="it"))
    whole = opened(engine_for(base_folder, url), spec)
    expected = apply_all(whole, ops)
    saved = done(expected[k]).checkpoint_url
    resumed = engine_for(base_folder, url)
    opening = resumed.open(MODEL, spec, checkpoint_url=saved, next_op=k + 2)
    assert done(opening).version == done(expected[k]).version
    assert apply_all(resumed, ops[k + 1 :], first=k + 2) == expected[k + 1 :]
    assert weights_of(resumed) == weights_of(whole)


def test_another_model_starts_from_a_checkpoint_at_op_1(base_folder: Path, tmp_path: Path) -> None:
    engine = opened(engine_for(base_folder, tmp_path), LORA)
    apply_all(engine, some_ops(4))
    url = save(engine, 5)
    child = ModelId("model_child")
    assert "op 1 can't be next" in failed(
        engine_for(base_folder, tmp_path).open(MODEL, LORA, checkpoint_url=url, next_op=1)
    )
    done(engine.open(child, LORA, checkpoint_url=url, next_op=1))
    parameters = engine._entries[child].model.parameters  # pyright: ignore[reportPrivateUsage]
    assert digest(parameters.values()) == weights_of(engine)


def test_an_opening_tells_the_vocabulary_of_the_base_model(
    base_folder: Path, tmp_path: Path
) -> None:
    opening = engine_for(base_folder, tmp_path).open(MODEL, LORA, checkpoint_url=None, next_op=1)
    assert done(opening).tokenizer == folder_digest(str(base_folder)) != ""


def test_saving_under_the_same_name_replaces(base_folder: Path, tmp_path: Path) -> None:
    engine = opened(engine_for(base_folder, tmp_path), FULL)
    save(engine, 1)
    apply_all(engine, some_ops(4), first=2)
    url = save(engine, 6)
    again = engine_for(base_folder, tmp_path)
    done(again.open(MODEL, FULL, checkpoint_url=url, next_op=7))
    assert weights_of(again) == weights_of(engine)
    assert sorted(os.listdir(Path(url).parent)) == ["it"]


@pytest.mark.parametrize("spec", SPECS)
def test_a_checkpoint_loads_with_the_usual_tools(
    base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    engine = opened(engine_for(base_folder, tmp_path), spec)
    apply_all(engine, some_ops(4))
    url = save(engine, 5)
    if spec is FULL:
        model = AutoModelForCausalLM.from_pretrained(url)  # pyright: ignore[reportUnknownMemberType]
    else:
        base = load_base(str(base_folder))
        model = PeftModel.from_pretrained(base, url)  # pyright: ignore[reportUnknownMemberType]
    causal = engine._entries[MODEL].model.network.causal  # pyright: ignore[reportPrivateUsage]
    ids = torch.arange(3, 20)[None]
    with torch.no_grad():
        assert torch.equal(model(input_ids=ids).logits, causal(input_ids=ids).logits)


OTHER = LORA.model_copy(update={"update": LoraUpdate(rank=2)})


@pytest.mark.parametrize(
    ("damage", "spec", "hint"),
    [
        pytest.param("", FULL, "is of another model", id="full from lora"),
        pytest.param("", OTHER, "is of another model", id="another rank"),
        pytest.param("flip", LORA, "adapter_model.safetensors is not what was", id="flipped bit"),
        pytest.param("cut", LORA, "adapter_model.safetensors is not what was", id="cut short"),
        pytest.param("lose", LORA, "is damaged", id="lost file"),
        pytest.param("unseal", LORA, "was never finished", id="no seal"),
        pytest.param("absent", LORA, "is not there", id="no folder"),
        pytest.param("policy", LORA, "is no checkpoint: state.json", id="a policy"),
    ],
)
def test_what_cannot_be_loaded_says_why(
    base_folder: Path, tmp_path: Path, damage: str, spec: ModelSpec, hint: str
) -> None:
    engine = opened(engine_for(base_folder, tmp_path), LORA)
    folder = Path(save(engine, 1))
    weights = folder / "adapter_model.safetensors"
    content = weights.read_bytes()
    match damage:
        case "flip":
            weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "cut":
            weights.write_bytes(content[:-100])
        case "lose":
            weights.unlink()
        case "unseal":
            (folder / "SHA256SUMS").unlink()
        case "absent":
            folder = folder.with_name("other")
        case "policy":
            (folder / "state.json").unlink()
            seal = folder / "SHA256SUMS"
            kept = [line for line in seal.read_text().splitlines(True) if "state" not in line]
            seal.write_text("".join(kept))
        case _:
            pass
    fresh = engine_for(base_folder, tmp_path)
    reason = failed(fresh.open(MODEL, spec, checkpoint_url=str(folder), next_op=2))
    assert hint in reason


def test_a_full_disk_fails_the_op_and_keeps_the_old_checkpoint(
    base_folder: Path, tmp_path: Path
) -> None:
    """The limit on the size of files fails a write in its middle, as a full disk does."""
    engine = opened(engine_for(base_folder, tmp_path), FULL)
    url = save(engine, 1)
    expected = digest_of_folder(Path(url))
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, unlimited[1]))
    try:
        reason = failed(engine.apply(MODEL, 2, SaveState(name="it")))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert "no space left where checkpoints are kept; free some" in reason
    assert digest_of_folder(Path(url)) == expected
    assert os.listdir(Path(url).parent) == ["it"]  # nothing half-written takes up space
    done(engine_for(base_folder, tmp_path).open(MODEL, FULL, checkpoint_url=url, next_op=2))
    save(engine, 3)


def test_a_full_disk_is_waited_for(base_folder: Path, tmp_path: Path) -> None:
    """A policy and a checkpoint are written once there is space, and nothing else is different."""
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    waited: list[str] = []

    def free_space(model: ModelId) -> None:
        waited.append(model)
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)

    engine = engine_for(base_folder, tmp_path, on_disk_full=free_space)
    done(engine.open(MODEL, FULL, checkpoint_url=None, next_op=1))
    for number, body in enumerate([SaveState(name="it"), PublishPolicy()], start=1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, unlimited[1]))
        try:
            done(engine.apply(MODEL, number, body))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert waited == [MODEL, MODEL]


def digest_of_folder(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_no_space_left_is_said_whoever_finds_it() -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    of_safetensors = SafetensorError(f"I/O error: {full.strerror} (os error {full.errno})")
    for error in (full, of_safetensors):
        assert reason_of(error).startswith("no space left where checkpoints are kept")


def test_only_what_shall_be_kept_stays(base_folder: Path, tmp_path: Path) -> None:
    """Older ones that are not named go; of newer ones, which only a replay can find, none does."""
    engine = opened(engine_for(base_folder, str(tmp_path)), FULL)
    states = states_url(str(tmp_path), MODEL)
    for number, name in enumerate("abcde", start=1):
        outcome = done(engine.apply(MODEL, number, SaveState(name=name)))
        assert outcome.checkpoint_bytes > 400_000
    assert list_folders(states) == list("abcde")
    done(engine.apply(MODEL, 6, SaveState(name="d", keep=("a", "nobody"))))
    assert list_folders(states) == ["a", "d", "e"]


def test_a_version_that_is_evaluated_stays_however_many_newer_ones_come(
    base_folder: Path, tmp_path: Path
) -> None:
    """Also where another trainer goes on from a checkpoint; then it goes with the next one."""
    config = EngineConfig({BASE: str(base_folder)}, str(tmp_path), keep_policies=2)
    window = [forward_backward(random_batch(1)), optim_step()]
    kept = [*window, PublishPolicy(keep=(1,))]
    engine = opened(Engine(config), LORA)
    ops = [*window, PublishPolicy(), *kept, *kept, *kept, SaveState(name="a")]
    url = done(apply_all(engine, ops)[-1]).checkpoint_url
    policies = policies_url(str(tmp_path), MODEL)
    assert list_folders(policies) == ["v1", "v3", "v4"]
    engine = Engine(config)
    done(engine.open(MODEL, LORA, checkpoint_url=url, next_op=14))
    apply_all(engine, kept, first=14)
    assert list_folders(policies) == ["v1", "v4", "v5"]
    apply_all(engine, [*window, PublishPolicy()], first=17)
    assert list_folders(policies) == ["v5", "v6"]


def test_ops_that_are_applied_again_delete_nothing_that_later_ones_keep(
    base_folder: Path, tmp_path: Path
) -> None:
    config = EngineConfig({BASE: str(base_folder)}, str(tmp_path), keep_policies=2)
    window = [forward_backward(random_batch(1)), optim_step()]
    bare, kept = [*window, PublishPolicy()], [*window, PublishPolicy(keep=(1,))]
    engine = opened(Engine(config), LORA)
    apply_all(engine, [*bare, *bare, *kept, *kept])
    policies = policies_url(str(tmp_path), MODEL)
    assert list_folders(policies) == ["v1", "v3", "v4"]
    again = opened(Engine(config), LORA)
    for first in (1, 4):
        apply_all(again, bare, first=first)
        assert "v1" in list_folders(policies)
    apply_all(again, [*kept, *kept], first=7)
    assert list_folders(policies) == ["v1", "v3", "v4"]


def test_what_cannot_be_deleted_now_fails_nothing(
    base_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS, where a folder can't go while somebody reads in it."""

    def busy(*_: object, **__: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    config = EngineConfig({BASE: str(base_folder)}, str(tmp_path), keep_policies=1)
    engine = opened(Engine(config), LORA)
    window = [forward_backward(random_batch(1)), optim_step()]
    apply_all(engine, [PublishPolicy(), SaveState(name="a"), *window])
    with monkeypatch.context() as patch:
        patch.setattr(LocalFileSystem, "rm", busy)
        done(engine.apply(MODEL, 5, PublishPolicy()))
        done(engine.apply(MODEL, 6, SaveState(name="b", keep=())))
    policies, states = policies_url(str(tmp_path), MODEL), states_url(str(tmp_path), MODEL)
    assert (list_folders(policies), list_folders(states)) == (["v0", "v1"], ["a", "b"])
    apply_all(engine, [*window, PublishPolicy(), SaveState(name="c", keep=())], first=7)
    assert (list_folders(policies), list_folders(states)) == (["v2"], ["c"])
