"""A folder of data sets that is full or can't be read, and that two empty at the same time."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.gateway import Gateway

from warren_gateway.datasets.folder import Folder

LINE = b'{"a": 1}\n'
SHA256 = hashlib.sha256(LINE).hexdigest()
UPLOAD = f"/v1/datasets/upload?sha256={SHA256}&kind=tasks"
BODY = {
    "name": "x",
    "kind": "tasks",
    "files": [{"split": "train", "sha256": SHA256, "size_bytes": len(LINE)}],
}


def folder_of(gateway: Gateway) -> Path:
    found = gateway.services.datasets.files.local("")
    assert found is not None
    return found


async def test_a_full_disk_is_507_and_the_part_is_taken_once_there_is_room(
    gateway: Gateway,
) -> None:
    part = folder_of(gateway) / f"uploads/ann/{SHA256}/{0:015d}"
    part.parent.mkdir(parents=True)
    part.symlink_to("/dev/full")
    async with gateway.ann.post(UPLOAD, data=LINE) as response:
        problem = await response.json()
    assert (response.status, problem["code"]) == (507, "storage_full"), problem
    part.unlink()
    async with gateway.ann.post(UPLOAD, data=LINE) as response:
        assert response.status == 200
    async with gateway.ann.post("/v1/datasets", json=BODY) as response:
        assert response.status == 201


async def test_files_that_cant_be_read_are_503(gateway: Gateway) -> None:
    async with gateway.ann.post(UPLOAD, data=LINE) as response:
        assert response.status == 200
    async with gateway.ann.post("/v1/datasets", json=BODY) as response:
        reference = (await response.json())["reference"]
    (file,) = folder_of(gateway).glob("versions/*/train.jsonl")
    file.unlink()
    file.symlink_to("/proc/self/mem")  # opens, and fails to be read
    async with gateway.ann.get("/v1/datasets/file", params={"dataset": reference}) as response:
        problem = await response.json()
    assert (response.status, problem["code"]) == (503, "folder_of_data_sets_unavailable"), problem


def test_several_may_remove_the_same(tmp_path: Path) -> None:
    folder = Folder(f"{tmp_path}")
    for number in range(300):
        folder.write(f"parts/{number}", b"")
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(folder.remove, ["parts"] * 8))
    assert folder.names("parts") == []
