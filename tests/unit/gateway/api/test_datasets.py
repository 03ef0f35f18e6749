"""Data sets: uploaded, read, shared and deleted, through the SDK and the command against the real app."""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncGenerator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlmodel import Session, select
from tests.support.gateway import Gateway

import warren
from warren.cli.commands.runs import data
from warren.cli.options import Gateway as GatewayOption
from warren.datasets import uploading
from warren_gateway.access.caller import Viewer
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.datasets.changing import delete_versions
from warren_gateway.store.tables import DatasetRow, DatasetUploadRow, RunDatasetRow
from warren_schemas.http import DatasetKind

CHATS = [
    {"messages": [{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": f"{n}!"}]}
    for n in range(5)
]


@pytest_asyncio.fixture
async def bob(gateway: Gateway) -> AsyncGenerator[warren.Client]:
    key = gateway.bob.headers["Authorization"].removeprefix("Bearer ")
    async with warren.connect(gateway.url, key, retry_s=2.0) as client:
        yield client


def json_lines(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


async def test_what_was_uploaded_is_shown_and_downloaded(
    client: warren.Client, tmp_path: Path
) -> None:
    file = json_lines(tmp_path / "chats.jsonl", CHATS)
    dataset = await client.datasets.upload(file, "chats")
    view = dataset.view
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    digest = hashlib.sha256(f"{sha256}  train.jsonl\n".encode()).hexdigest()
    assert (view.kind, view.n_rows, view.owner) == (DatasetKind.MESSAGES, 5, "ann")
    assert view.reference == f"ann/chats@{digest}"
    (split,) = view.splits
    assert (split.name, split.sha256, split.columns) == ("train", sha256, {"messages": "list"})
    assert list(await dataset.rows(offset=3)) == CHATS[3:]
    folder = tmp_path / "copy"
    await dataset.download(folder)
    assert (folder / "train.jsonl").read_bytes() == file.read_bytes()
    seal = (folder / "SHA256SUMS").read_bytes()
    assert hashlib.sha256(seal).hexdigest() == digest


async def test_a_folder_has_its_files_as_splits_and_parquet_is_read_as_rows(
    client: warren.Client, tmp_path: Path
) -> None:
    folder = tmp_path / "gsm"
    json_lines(folder / "test.jsonl", [{"question": "1 + 1?", "answer": 2}])
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    table = arrow.Table.from_pylist([{"question": "2 + 2?", "answer": 4}] * 3)
    parquet.write_table(table, folder / "train.parquet")
    dataset = await client.datasets.upload(folder, "gsm")
    assert dataset.view.kind is DatasetKind.TASKS
    assert {each.name: each.n_rows for each in dataset.view.splits} == {"test": 1, "train": 3}
    assert await dataset.rows("train", limit=1) == ({"question": "2 + 2?", "answer": 4},)
    with pytest.raises(warren.NotFound, match="it has: test, train"):
        await dataset.rows("validation")


async def test_versions_are_known_by_their_content(client: warren.Client, tmp_path: Path) -> None:
    first = await client.datasets.upload(json_lines(tmp_path / "a.jsonl", CHATS), "chats")
    again = await client.datasets.upload(json_lines(tmp_path / "b.jsonl", CHATS), "chats")
    newer = await client.datasets.upload(json_lines(tmp_path / "c.jsonl", CHATS[:2]), "chats")
    assert first.reference == again.reference != newer.reference
    assert (await client.datasets.get("chats")).reference == newer.reference
    beginning = first.view.digest[:8]
    assert (await client.datasets.get(f"chats@{beginning}")).reference == first.reference
    assert [each.reference for each in await client.datasets.all()] == [
        newer.reference,
        first.reference,
    ]
    assert await client.datasets.delete(f"chats@{beginning}") == (first.reference,)
    assert [each.reference for each in await client.datasets.all()] == [newer.reference]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "line 2: it is not JSON"),
        ("", "line 2: it is empty"),
        ("[]", "line 2: it must be a JSON object"),
        ('{"text": "a"}', "line 2: it has no messages"),
        ('{"messages": []}', "line 2: messages must be a list of messages"),
        ('{"messages": [{"role": "bot", "content": ""}]}', "messages.0.role must be one of"),
        ('{"messages": [{"role": "user", "content": 1}]}', "messages.0.content must be a text"),
        (
            '{"messages": [{"role": "assistant", "content": "", "tool_calls": []}]}',
            "messages.0 has tool_calls",
        ),
    ],
)
async def test_a_wrong_line_is_told_by_its_number_before_anything_is_uploaded(
    client: warren.Client, gateway: Gateway, tmp_path: Path, line: str, reason: str
) -> None:
    file = tmp_path / "wrong.jsonl"
    file.write_text(f"{json.dumps(CHATS[0])}\n{line}\n{json.dumps(CHATS[1])}\n")
    with pytest.raises(warren.ConfigurationError, match=reason):
        await client.datasets.upload(file, "wrong")
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    where = f"/v1/datasets/upload?sha256={sha256}&kind=messages"
    async with gateway.ann.post(where, data=file.read_bytes()) as response:  # by another client
        assert response.status == 422
        assert reason in (await response.json())["message"]
    assert await client.datasets.all() == []


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"prompt": "a", "completion": ""}, "completion is empty"),
        ({"prompt": "a", "completion": [{"role": "assistant", "content": "b"}]}, "both be texts"),
        ({"prompt": [], "completion": []}, "prompt must be a list of messages"),
    ],
)
async def test_a_wrong_pair_is_refused(
    client: warren.Client, tmp_path: Path, row: dict[str, object], reason: str
) -> None:
    with pytest.raises(warren.ConfigurationError, match=reason):
        await client.datasets.upload(json_lines(tmp_path / "wrong.jsonl", [row]), "wrong")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("rows.txt", "{}\n", "must end in .jsonl or .parquet"),
        ("rows.jsonl", "", "has no rows"),
        ("rows.parquet", "nonsense", "not a complete parquet file"),
        ("rows.jsonl", json.dumps({"a": "b" * 300_000}), "at most 262144 can be sent"),
    ],
)
async def test_files_that_are_none_are_refused(
    client: warren.Client, tmp_path: Path, name: str, content: str, reason: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(warren.ConfigurationError, match=reason):
        await client.datasets.upload(tmp_path / name, "wrong")


async def test_an_upload_goes_on_where_it_was_cut_off(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    rows = [{"text": f"{n:06d}" * 100} for n in range(4000)]  # three parts
    file = json_lines(tmp_path / "rows.jsonl", rows)
    whole = file.read_bytes()
    sha256 = hashlib.sha256(whole).hexdigest()
    cut = whole.rindex(b"\n", 0, uploading.PART_BYTES) + 1
    where = f"/v1/datasets/upload?sha256={sha256}&kind=tasks"
    for _ in range(2):  # the same part again changes nothing
        async with gateway.ann.post(f"{where}&offset=0", data=whole[:cut]) as response:
            assert (await response.json())["received_bytes"] == cut
    async with gateway.ann.post(f"{where}&offset={2 * cut}", data=b'{"a": 1}\n') as response:
        assert (response.status, (await response.json())["code"]) == (409, "upload_out_of_order")
    dataset = await client.datasets.upload(file, "rows")
    assert dataset.view.splits[0].sha256 == sha256
    assert list(await dataset.rows(offset=3999)) == rows[3999:]


async def test_two_clients_that_upload_the_same_make_one_version(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    file = json_lines(tmp_path / "rows.jsonl", [{"text": f"{n:06d}" * 100} for n in range(4000)])
    uploads = (client.datasets.upload(file, "rows", reconnect_s=60.0) for _ in range(2))
    one, other = await asyncio.gather(*uploads)
    assert one.reference == other.reference
    kept = await gateway.store.transact(lambda session: list(session.exec(select(DatasetRow))))
    left = await gateway.store.transact(
        lambda session: list(session.exec(select(DatasetUploadRow)))
    )
    assert (len(kept), left) == (1, [])


async def test_what_does_not_have_the_digest_that_it_was_said_to_have_is_dropped(
    client: warren.Client, gateway: Gateway
) -> None:
    said = hashlib.sha256(b"something else").hexdigest()
    where = f"/v1/datasets/upload?sha256={said}"
    async with gateway.ann.post(f"{where}&kind=tasks", data=b'{"a": 1}\n') as response:
        assert response.status == 200
    body = {"name": "x", "kind": "tasks", "files": [{"split": "train", "sha256": said, "size_bytes": 9}]}  # fmt: skip
    async with gateway.ann.post("/v1/datasets", json=body) as response:
        assert (response.status, (await response.json())["code"]) == (422, "wrong_upload")
    assert await client.datasets.all() == []
    async with gateway.ann.get(where) as response:
        assert (await response.json())["received_bytes"] == 0


async def test_others_see_a_data_set_while_it_is_shared_with_them(
    client: warren.Client, bob: warren.Client, tmp_path: Path
) -> None:
    dataset = await client.datasets.upload(json_lines(tmp_path / "chats.jsonl", CHATS), "chats")
    for attempt in (bob.datasets.get("ann/chats"), bob.datasets.delete("ann/chats")):
        with pytest.raises(warren.NotFound):
            await attempt
    assert (await dataset.share("bob")).shared_with == ("bob",)
    seen = await bob.datasets.get("ann/chats")
    assert list(await seen.rows()) == CHATS
    assert seen.view.shared_with == ()
    assert [each.reference for each in await bob.datasets.all()] == [dataset.reference]
    for attempt in (bob.datasets.get("chats"), seen.delete(), seen.share(None)):
        with pytest.raises(warren.NotFound):
            await attempt
    assert (await dataset.unshare("bob")).shared_with == ()
    with pytest.raises(warren.NotFound):
        await seen.rows()


@pytest.mark.parametrize("budgets", [BudgetOptions(stored_gib_per_owner=1e-6)])
async def test_no_more_is_stored_than_the_owner_may(client: warren.Client, tmp_path: Path) -> None:
    small = json_lines(tmp_path / "small.jsonl", CHATS[:2])
    await client.datasets.upload(small, "small")
    large = json_lines(tmp_path / "large.jsonl", CHATS * 20)
    with pytest.raises(warren.GatewayBusy, match="may store 1e-06"):
        await client.datasets.upload(large, "large")  # to wait would make no room


@pytest.mark.parametrize("budgets", [BudgetOptions(stored_gib_per_owner=1e-6)])
async def test_what_others_put_together_meanwhile_counts(gateway: Gateway) -> None:
    line = b'{"a": 1}\n'
    sha256 = hashlib.sha256(line).hexdigest()
    where = f"/v1/datasets/upload?sha256={sha256}&kind=tasks"
    async with gateway.ann.post(where, data=line) as response:
        assert response.status == 200
    other = DatasetRow(
        id="data_1", owner="ann", name="x", digest="", kind="tasks", splits=[],
        size_bytes=2000, created_s=time.time(),
    )  # fmt: skip
    await gateway.store.transact(lambda session: session.add(other))
    file = {"split": "train", "sha256": sha256, "size_bytes": len(line)}
    body = {"name": "y", "kind": "tasks", "files": [file]}
    async with gateway.ann.post("/v1/datasets", json=body) as response:
        assert (response.status, (await response.json())["code"]) == (429, "over_budget")
    twice = {**body, "files": [file, {**file, "split": "test"}]}
    async with gateway.ann.post("/v1/datasets", json=twice) as response:
        assert (response.status, (await response.json())["code"]) == (422, "wrong_upload")


async def test_what_is_deleted_counts_until_its_files_are_gone(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    dataset = await client.datasets.upload(json_lines(tmp_path / "chats.jsonl", CHATS), "chats")
    gone = await gateway.store.transact(partial(delete_versions, Viewer("ann"), "chats"))
    with pytest.raises(warren.NotFound):  # a gateway that died here
        await client.datasets.get("chats")
    (row,) = await gateway.store.transact(lambda session: list(session.exec(select(DatasetRow))))
    assert (row.id, row.size_bytes) == (*gone, dataset.view.size_bytes)
    await client.datasets.upload(json_lines(tmp_path / "new.jsonl", CHATS[:2]), "new")
    rows = await gateway.store.transact(lambda session: list(session.exec(select(DatasetRow))))
    assert [row.name for row in rows] == ["new"]


async def test_what_a_run_reads_stays_until_it_is_over(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    dataset = await client.datasets.upload(json_lines(tmp_path / "chats.jsonl", CHATS), "chats")
    run = await gateway.submit()

    def read(session: Session) -> None:
        (row,) = session.exec(select(DatasetRow))
        session.add(RunDatasetRow(run_id=run, dataset_id=row.id))

    await gateway.store.transact(read)
    with pytest.raises(warren.GatewayError, match=f"is read by {run}"):
        await dataset.delete()


async def test_a_run_reads_exactly_the_version_that_was_there(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    first = await client.datasets.upload(json_lines(tmp_path / "a.jsonl", CHATS), "chats")
    tasks = {"train": [{"question": "1?"}], "test": [{"question": "2?"}]}
    for split, rows in tasks.items():
        json_lines(tmp_path / "tasks" / f"{split}.jsonl", rows)
    played = await client.datasets.upload(tmp_path / "tasks", "tasks")
    config = {
        "model": {"base": "warren/tiny"},
        "environments": [{"name": "math", "dataset": "tasks", "evaluation_split": "test"}],
        "sft": {
            "dataset": "chats",
            "epochs": 3,
            "episodes_per_step": 2,
            "evaluation_split": "train",
            "evaluate_every": 3,
            "evaluation_rows": 2,
        },
        "evaluation": {"episodes": 2},
    }
    estimated = (await client.check(config)).estimate
    assert estimated.demonstrations == 8 * 2 + 3 * 2, "3 passes over 5 rows, and 3 evaluations"
    run = await client.train(config, idempotency_key="the same again")
    stored = run.view.config
    assert stored is not None
    assert stored.sft is not None
    assert (stored.sft.dataset, stored.sft.steps, stored.sft.epochs) == (first.reference, 8, None)
    assert stored.environments[0].dataset == played.reference
    newer = await client.datasets.upload(json_lines(tmp_path / "b.jsonl", CHATS[:2]), "chats")
    again = await client.train(config, idempotency_key="the same again")
    assert again.id == run.id
    assert again.view.config == stored
    with pytest.raises(warren.GatewayError, match=f"is read by {run.id}"):
        await client.datasets.delete("chats")
    await newer.delete()
    rows = await gateway.services.datasets.opened(stored)
    assert rows[first.reference]["train"].row(4) == CHATS[4]
    assert rows[played.reference]["test"].row(0) == tasks["test"][0]


async def test_a_replay_needs_the_split_that_it_evaluates_alone(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    for split in ("easy", "hard"):
        json_lines(tmp_path / "tasks" / f"{split}.jsonl", [{"question": split}])
    played = await client.datasets.upload(tmp_path / "tasks", "tasks")
    environment = {"name": "guess", "dataset": "tasks", "split": "easy", "evaluation_split": "hard"}
    config = {"model": {"base": "warren/tiny"}, "environments": [environment], "evaluation": {}}
    replay = await client.replay(await gateway.submit(), config)
    assert replay.view.config is not None
    (found,) = replay.view.config.environments
    assert (found.dataset, found.split) == (played.reference, "train")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sft": {"dataset": "tasks"}}, "sft.dataset: tasks holds tasks"),
        ({"sft": {"dataset": "none"}}, "sft.dataset: there is no data set none"),
        ({"sft": {"dataset": "ann/chats@000000"}}, "there is no data set ann/chats@000000"),
        ({"sft": {"dataset": "chats", "split": "dev"}}, "sft.split: chats has no split dev"),
        (
            {"sft": {"dataset": "chats", "evaluation_split": "dev"}},
            "sft.evaluation_split: chats has no split dev; it has: train",
        ),
        (
            {
                "sft": {
                    "dataset": "chats",
                    "epochs": 1,
                    "evaluation_split": "train",
                    "evaluate_every": 2,
                }
            },
            "sft.evaluate_every: evaluate_every is 2, and there is one step; leave it out",
        ),
        (
            {"environments": [{"name": "math", "dataset": "tasks", "split": "dev"}]},
            "environments.0.split: tasks has no split dev; it has: train",
        ),
    ],
)
async def test_a_config_that_refers_to_what_there_is_not_is_refused(
    client: warren.Client, tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    await client.datasets.upload(json_lines(tmp_path / "a.jsonl", CHATS), "chats")
    await client.datasets.upload(json_lines(tmp_path / "b.jsonl", [{"q": 1}]), "tasks")
    config = {"model": {"base": "warren/tiny"}, "environments": [{"name": "guess"}], **changes}
    with pytest.raises(warren.ConfigurationError) as refused:
        await client.train(config)
    assert reason in str(refused.value)
    assert reason in "; ".join((await client.check(config)).mistakes)


async def test_others_train_on_what_is_shared_with_them(
    client: warren.Client, bob: warren.Client, tmp_path: Path
) -> None:
    dataset = await client.datasets.upload(json_lines(tmp_path / "a.jsonl", CHATS), "chats")
    config = {
        "model": {"base": "warren/tiny"},
        "sft": {"dataset": "ann/chats"},
        "limits": {"steps": 0},
    }
    with pytest.raises(warren.ConfigurationError, match="no data set"):
        await bob.train(config)
    await dataset.share("bob")
    run = await bob.train(config)
    assert run.view.config is not None
    assert run.view.config.sft is not None
    assert run.view.config.sft.dataset == dataset.reference


async def test_names_that_are_none_are_refused(client: warren.Client, tmp_path: Path) -> None:
    file = json_lines(tmp_path / "chats.jsonl", CHATS)
    with pytest.raises(warren.ConfigurationError, match="can't be named"):
        await client.datasets.upload(file, "my chats")
    with pytest.raises(warren.ConfigurationError, match="names no data set"):
        await client.datasets.get("chats@xyz")


async def test_the_commands(
    gateway: Gateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = json_lines(tmp_path / "chats.jsonl", CHATS)
    key = gateway.ann.headers["Authorization"].removeprefix("Bearer ")
    there = GatewayOption(url=gateway.url, api_key=key)

    def commands() -> list[int]:
        return [
            data.upload(file, name="chats", gateway=there),
            data.show("chats", rows=1, gateway=there),
            data.ls(gateway=there),
            data.share("chats", everybody=True, gateway=there),
            data.download("chats", to=tmp_path / "copy", gateway=there),
            data.rm("chats", gateway=there),
        ]

    assert set(await asyncio.to_thread(commands)) == {0}
    said = capsys.readouterr().out
    for expected in ("5 rows of messages", '{"messages":', "shared with everybody", "is deleted"):
        assert expected in said


async def test_what_is_asked_for_from_beyond_the_end_is_empty(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    await client.datasets.upload(json_lines(tmp_path / "chats.jsonl", CHATS), "chats")
    query = {"dataset": "chats", "offset": str(2**63 - 1)}
    async with gateway.ann.get("/v1/datasets/file", params=query) as response:
        assert (response.status, await response.read()) == (200, b"")
