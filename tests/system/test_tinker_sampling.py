"""The Tinker protocol's sampling end to end: the wire, the queue, a real sampler."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator

import numpy as np
import pytest
import pytest_asyncio
import torch
from tests.support.base_models import tiny_models
from tests.support.gateway import Gateway
from tests.support.patience import several_waits
from tests.support.sampling_gateway import BASE, sampling_gateway
from tests.support.tinker import Json, Wire, ids_of

from warren_gateway.store.tables import TinkerSample
from warren_gateway.tinker.samples.rows import SampleRows
from warren_gateway.tinker.wire import messages
from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.base_models.tiny import FAMILY

__all__ = ["tiny_models"]

EOS = 1
PROMPT = [2, 9, 14, 20, 7]

pytestmark = [pytest.mark.asyncio(loop_scope="module"), several_waits]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(
    tiny_models: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Gateway]:
    folder = tmp_path_factory.mktemp("tinker")
    async with sampling_gateway(folder, tiny_models[BASE]) as gateway:
        yield gateway


@pytest.fixture
def ann(gateway: Gateway) -> Wire:
    return Wire(gateway.ann)


@pytest.fixture
def bob(gateway: Gateway) -> Wire:
    return Wire(gateway.bob)


async def test_a_client_finds_the_models_and_begins_a_session(ann: Wire) -> None:
    assert await ann.get("healthz") == {"status": "ok"}
    await ann.post("client/config", {"sdk_version": "9.9"})
    capabilities = await ann.get("get_server_capabilities")
    assert capabilities["supported_models"] == [
        {"model_name": BASE, "trainable": False, "sampleable": True}
    ]
    session = await ann.session()
    await ann.post("session_heartbeat", {"session_id": session})
    assert session in (await ann.get("sessions"))["sessions"]
    await ann.post(f"sessions/{session}/finish", {"reason": {"type": "success"}, "detail": None})


async def test_samples_come_with_their_logprobs_and_their_ends(
    ann: Wire, tiny_models: dict[str, str]
) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    assert (await ann.get(f"samplers/{sampler}"))["base_model"] == BASE
    future = await ann.ask(sampler, 0, PROMPT, num_samples=3)
    assert len(set(future["sample_sequence_ids"])) == 3
    told = await ann.outcome(future["request_id"])
    assert told == await ann.outcome(future["request_id"]), "a result is kept after it was fetched"
    assert isinstance(told, bytes)
    sequences = messages.SampleResponse.FromString(told).sequences
    assert len(sequences) == 3
    model = load_base(tiny_models[BASE])
    for sequence in sequences:
        ids = ids_of(sequence)
        with torch.inference_mode():
            logits_TV = model(torch.tensor([PROMPT + ids])).logits[0].float()
        own_T = logits_TV.log_softmax(-1)[len(PROMPT) - 1 : -1][range(len(ids)), ids]
        np.testing.assert_allclose(np.frombuffer(sequence.logprobs, "<f4"), own_T, atol=1e-3)
        ended = ids[-1] == EOS
        assert sequence.stop_reason == (messages.STOP if ended else messages.LENGTH)


async def test_what_is_sampled_is_counted(gateway: Gateway, ann: Wire) -> None:
    session, since = await ann.session(), "starting_on=2026-01-01T00:00:00Z"
    sampler = await ann.sampler(session, base_model=BASE)
    told = await ann.sample(sampler, 0, PROMPT, num_samples=3, topk_sample_logprobs=2)
    n_sampled = sum(len(ids_of(sequence)) for sequence in told.sequences)
    assert (await ann.completed(sampler))["completions"]  # it is in the store
    until = "ending_before=2126-01-01T00:00:00Z"
    used = (await ann.get(f"billing/usage/events?{since}&{until}"))["data"]
    counted = [(u["base_model"], u["event_info"]) for u in used if u["session_id"] == session]
    prompt = {"type": "sampling_prefill", "cached": False, "token_count": len(PROMPT)}
    sampled = {"type": "sampling_sample", "token_count": n_sampled}
    assert counted == [(BASE, prompt), (BASE, sampled)]
    async with gateway.ann.get("/v1/usage?by=run") as response:
        (row,) = (await response.json())["usage"]
    assert (row["run"], row["user"]) == (None, "ann")
    assert row["n_tokens_sampled"] >= n_sampled and row["sampling_gpu_s"] > 0


async def test_the_same_number_is_one_sample(ann: Wire) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    first, again = [await ann.ask(sampler, 841_814_992_000_000_000, PROMPT) for _ in range(2)]
    assert first == again
    assert await ann.outcome(first["request_id"]) == await ann.outcome(again["request_id"])


async def test_a_seed_repeats_and_its_samples_differ(ann: Wire) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    sampling = {"max_tokens": 12, "seed": 5, "temperature": 2.0}
    one, two = [
        await ann.sample(sampler, n, PROMPT, sampling=sampling, num_samples=3) for n in range(2)
    ]
    assert [s.tokens for s in one.sequences] == [s.tokens for s in two.sequences]
    assert len({s.tokens for s in one.sequences}) > 1


async def test_turns_end_where_the_client_says(ann: Wire) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    hot = {"max_tokens": 30, "temperature": 3.0}
    everything = {**hot, "stop": list(range(56))}
    (stopped,) = (await ann.sample(sampler, 0, PROMPT, sampling=everything)).sequences
    assert (len(ids_of(stopped)), stopped.stop_reason) == (1, messages.STOP)
    never = await ann.sample(sampler, 1, PROMPT, sampling={**hot, "stop": []}, num_samples=8)
    assert {len(ids_of(s)) for s in never.sequences} == {30}
    assert any(EOS in ids_of(s)[:-1] for s in never.sequences)
    assert {s.stop_reason for s in never.sequences} == {messages.LENGTH}
    digits = {**hot, "stop": [str(n) for n in range(10)]}
    (cut,) = (await ann.sample(sampler, 2, PROMPT, sampling=digits)).sequences
    assert len(ids_of(cut)) <= 30


async def test_logprobs_of_prompts_are_told(ann: Wire, tiny_models: dict[str, str]) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    asked = {"prompt_logprobs": True, "topk_prompt_logprobs": 2, "num_samples": 2}
    told = await ann.sample(sampler, 0, PROMPT, **asked)
    own_T = np.frombuffer(told.prompt_logprobs, "<f4")
    with torch.inference_mode():
        logits_TV = load_base(tiny_models[BASE])(torch.tensor([PROMPT])).logits[0].float()
    logprobs_TV = logits_TV.log_softmax(-1)[:-1]
    assert np.isnan(own_T[0])
    np.testing.assert_allclose(own_T[1:], logprobs_TV[range(4), PROMPT[1:]], atol=1e-3)
    top = told.topk_prompt_logprobs
    assert (top.k, top.length) == (2, 5)
    top_TK = np.frombuffer(top.logprobs, "<f4").reshape(5, 2)
    assert (top_TK[0] == -99999).all()
    np.testing.assert_allclose(top_TK[1:], logprobs_TV.topk(2).values, atol=1e-3)
    last = await ann.sample(sampler, 1, PROMPT, **asked, prompt_logprobs_last_n=2)
    last_T = np.frombuffer(last.prompt_logprobs, "<f4")
    np.testing.assert_array_equal(last_T, [np.nan, np.nan, np.nan, *own_T[-2:]])
    last_TK = np.frombuffer(last.topk_prompt_logprobs.logprobs, "<f4").reshape(5, 2)
    assert (last_TK[:3] == -99999).all()
    np.testing.assert_array_equal(last_TK[3:], top_TK[3:])


async def test_alternatives_to_sampled_tokens_are_told(
    ann: Wire, tiny_models: dict[str, str]
) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    asked: Json = {"topk_sample_logprobs": 3, "num_samples": 2}
    told = await ann.sample(sampler, 0, PROMPT, **asked, prompt_logprobs=True)
    assert len(told.prompt_logprobs) == 4 * len(PROMPT)
    model = load_base(tiny_models[BASE])
    for sequence in told.sequences:
        ids, top = ids_of(sequence), sequence.topk_sampled_logprobs
        assert (top.k, top.length) == (3, len(ids))
        with torch.inference_mode():
            logits_TV = model(torch.tensor([PROMPT + ids])).logits[0].float()
        best = logits_TV.log_softmax(-1)[len(PROMPT) - 1 : -1].topk(3)
        top_TK = np.frombuffer(top.logprobs, "<f4").reshape(-1, 3)
        np.testing.assert_allclose(top_TK, best.values, atol=1e-3)
        np.testing.assert_array_equal(np.frombuffer(top.token_ids, "<i4"), best.indices.flatten())


async def test_an_answer_that_fills_the_context_is_told_without_alternatives(ann: Wire) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    endless: Json = {"stop": []}
    told = await ann.sample(sampler, 0, PROMPT, sampling=endless, topk_sample_logprobs=2)
    (sequence,) = told.sequences
    assert len(PROMPT) + len(ids_of(sequence)) == FAMILY["warren/tiny"].context_length
    assert sequence.topk_sampled_logprobs.length == 0


async def test_what_cant_be_sampled_is_a_failed_future(ann: Wire) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    too_long = await ann.ask(sampler, 0, [2] * 100_000)
    told = await ann.outcome(too_long["request_id"])
    assert isinstance(told, dict)
    assert (told["category"], "context" in told["error"]) == ("user", True)
    for number, name in enumerate(("prompt_alt_tokens_k", "topk_sample_logprobs"), start=1):
        unknown = await ann.ask(sampler, number, PROMPT, **{name: 99})
        told = await ann.outcome(unknown["request_id"])
        assert isinstance(told, dict)
        assert told["category"] == "user" and name in told["error"]


async def test_a_future_that_is_cancelled_or_lost_is_gone_and_can_be_asked_again(ann: Wire) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    endless: Json = {"max_tokens": 400, "stop": []}
    future = (await ann.ask(sampler, 0, PROMPT, sampling=endless))["request_id"]
    await ann.post("cancel_future", {"request_id": future})
    await ann.outcome(future, status=410)
    await ann.outcome(f"{sampler}:77", status=410)
    assert len((await ann.sample(sampler, 0, PROMPT)).sequences) == 1


async def test_a_sample_that_was_cancelled_at_another_gateway_ends(
    gateway: Gateway, ann: Wire
) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    endless: Json = {"max_tokens": 400, "stop": []}
    future = (await ann.ask(sampler, 0, PROMPT, sampling=endless))["request_id"]
    await SampleRows(gateway.store, lambda: None).cancel("ann", future)
    await gateway.services.tinker.futures.hold()
    await ann.outcome(future, status=410)


async def test_an_op_is_not_cancelled(ann: Wire) -> None:
    told = await ann.post("cancel_future", {"request_id": "future_1"}, status=400)
    assert "can't be taken back" in told["detail"]


async def test_a_sample_whose_gateway_is_gone_is_asked_again_and_its_result_stays(
    gateway: Gateway, ann: Wire
) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    await gateway.store.transact(lambda session: session.add(orphan(sampler, 5)))
    told = await ann.outcome(f"{sampler}:5")
    assert isinstance(told, bytes)
    assert await ann.outcome(f"{sampler}:5") == told


async def test_a_client_of_many_samples_hears_of_each_once(ann: Wire) -> None:
    sampler, n = await ann.sampler(await ann.session(), base_model=BASE), 30
    futures = {(await ann.ask(sampler, number, PROMPT))["request_id"] for number in range(n)}
    futures.add((await ann.ask(sampler, n, [2] * 100_000))["request_id"])
    cursor, heard = 0, dict[str, Json]()
    while len(heard) <= n:
        told = await ann.completed(sampler, cursor)
        assert told["completions"], "and none waits longer than it takes"
        named = {one["request_id"]: one for one in told["completions"]}
        assert not named.keys() & heard.keys()
        heard, cursor = heard | named, told["cursor"]
    assert heard.keys() == futures
    assert heard.pop(f"{sampler}:{n}")["state"] == "failed"
    for name, one in heard.items():
        outcome = await ann.outcome(name)
        assert isinstance(outcome, bytes)
        assert one["response_payload_uncompressed_size"] == len(outcome)
    nothing = await ann.completed(sampler, cursor, timeout=0)
    assert nothing == {"completions": [], "cursor": cursor}


async def test_who_polls_hears_of_a_sample_whose_gateway_is_gone(
    gateway: Gateway, ann: Wire
) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    await gateway.store.transact(lambda session: session.add(orphan(sampler, 5)))
    (told,) = (await ann.completed(sampler))["completions"]
    assert (told["request_id"], told["state"]) == (f"{sampler}:5", "finished")
    assert isinstance(await ann.outcome(f"{sampler}:5"), bytes)


async def test_a_client_that_polls_already_hears_of_it_as_well(gateway: Gateway, ann: Wire) -> None:
    sampler = await ann.sampler(await ann.session(), base_model=BASE)
    await ann.completed(sampler, timeout=0)
    await gateway.store.transact(lambda session: session.add(orphan(sampler, 6)))
    polling = asyncio.create_task(ann.completed(sampler))
    await gateway.services.tinker.futures.hold()
    (told,) = (await polling)["completions"]
    assert told["request_id"] == f"{sampler}:6"


def orphan(sampler: str, number: int) -> TinkerSample:
    """One that a gateway has accepted and did not live to answer."""
    accepted = {
        "sampling_session_id": sampler,
        "seq_id": number,
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": PROMPT}]},
        "sampling_params": {"max_tokens": 3},
    }
    return TinkerSample(
        id=f"{sampler}:{number}",
        sampler=sampler,
        owner="ann",
        asked=json.dumps(accepted).encode(),
        holder="gateway_gone",
        held_until_s=time.time() + 60,
    )


async def test_another_tenant_reaches_no_session_sampler_or_future(ann: Wire, bob: Wire) -> None:
    session = await ann.session()
    sampler = await ann.sampler(session, base_model=BASE)
    future = (await ann.ask(sampler, 0, PROMPT))["request_id"]
    await bob.post("session_heartbeat", {"session_id": session}, status=410)
    await bob.post(f"sessions/{session}/finish", status=404)
    await bob.get(f"sessions/{session}", status=404)
    await bob.get(f"samplers/{sampler}", status=404)
    opening = {"session_id": session, "sampling_session_seq_id": 0, "base_model": BASE}
    await bob.post("create_sampling_session", opening, status=404)
    asked: Json = {"sampling_session_id": sampler, "seq_id": 0, "prompt": {"chunks": []}}
    await bob.post("asample", asked, status=404)
    await bob.outcome(future, status=410)
    await bob.completed(sampler, status=404)
    await bob.post("cancel_future", {"request_id": future})
    assert isinstance(await ann.outcome(future), bytes), "and it can't be cancelled either"
    assert session not in (await bob.get("sessions"))["sessions"]
