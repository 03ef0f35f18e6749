"""Two users of one deployment, each with Tinker's SDK in a process of its own: what one publishes the other can use for
as long as it is, and nothing else of the other's is there for them, though both train and sample at once.
"""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from tests.ecosystems.tinker.table import BASE, ROOT, Up, deployed
from tests.support.base_models import tiny_models
from tests.support.patience import PATIENCE_S, several_waits

import warren.sync

__all__ = ["tiny_models"]

pytestmark = [pytest.mark.ecosystem_all, several_waits]
PYTHON = str(ROOT / ".venv-tinker" / "bin" / "python")
PROGRAM = Path(__file__).with_name("user.py")
N_STEPS = 4


@dataclass
class User:
    """Who has a client in a process of its own."""

    up: Up
    key: str
    process: "subprocess.Popen[str]"

    def ask(self, method: str, *arguments: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([method, *arguments]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def told(self, method: str, *arguments: object) -> Any:
        self.ask(method, *arguments)
        answer = self.answer()
        assert "refused" not in answer, answer
        return answer["told"]

    def refused(self, method: str, *arguments: object) -> str:
        self.ask(method, *arguments)
        answer = self.answer()
        assert "refused" in answer, (method, arguments, answer)
        return answer["refused"]

    def http(self, path: str, body: object = None) -> tuple[int, bytes]:
        """What the gateway answers where the SDK has no method."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-API-Key": self.key, "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.up.url}/api/v1/{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@contextmanager
def using(up: Up, name: str) -> Generator[User]:
    """A new user."""
    with warren.sync.connect(up.url, up.key.removeprefix("tml-")) as client:
        key = f"tml-{client.access.add_user(name).first_key.key}"
    command = [PYTHON, str(PROGRAM), up.url, key, BASE]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:
        try:
            yield User(up, key, process)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, tiny_models: dict[str, str]) -> Generator[Up]:
    with deployed(tmp_path_factory.mktemp("up"), tiny_models[BASE]) as up:
        yield up


def archive_of(path: str) -> str:
    run, _, kept = path.removeprefix("tinker://").partition("/")
    return f"training_runs/{run}/checkpoints/{kept}/archive"


def test_what_is_published_is_used_by_another_user_until_it_is_no_more(up: Up) -> None:
    with using(up, "ann") as ann, using(up, "bob") as bob:
        trained, paths = ann.told("train", 2), ann.told("saved")
        uses = [("begun", "state"), ("sample", "weights"), ("downloaded", "external")]
        for method, kind in uses:
            assert "no" in bob.refused(method, paths[kind])
        assert bob.http(archive_of(paths["weights"]))[0] == 404
        ann.told("publish", paths["state"])
        assert bob.told("begun", paths["state"]) == pytest.approx(trained["logprobs"], abs=1e-5)
        assert bob.told("sample", paths["weights"]) == 1
        assert min(bob.told("downloaded", paths["external"]).values()) > 0
        status, archive = bob.http(archive_of(paths["weights"]))
        assert status == 200
        assert bob.told("fetched", json.loads(archive)["url"]) > 0
        bob.refused("delete", paths["state"])
        ann.told("unpublish", paths["state"])
        for method, kind in uses:
            bob.refused(method, paths[kind])
        assert "404" in bob.refused("sample_again")
        assert bob.http(archive_of(paths["weights"]))[0] == 404
        assert ann.told("begun", paths["state"]) == pytest.approx(trained["logprobs"], abs=1e-5)


def test_users_that_train_and_sample_at_once_see_nothing_of_each_other(up: Up) -> None:
    with using(up, "carl") as carl, using(up, "dora") as dora:
        for user in (carl, dora):
            user.ask("train", N_STEPS)
        has = {user.key: user.answer()["told"] for user in (carl, dora)}
        for user in (carl, dora):
            user.ask("saved")
        paths = {user.key: user.answer()["told"] for user in (carl, dora)}
        assert has[carl.key]["n_sampled"] == has[dora.key]["n_sampled"] == 2 * N_STEPS
        assert has[carl.key]["logprobs"] == pytest.approx(has[dora.key]["logprobs"], abs=1e-5)
        for user, other in ((carl, dora), (dora, carl)):
            sees_nothing(user, has[user.key], other, has[other.key], paths[other.key])
        for user in (carl, dora):
            assert user.told("train", 1)["n_sampled"] == 2


def sees_nothing(
    user: User, own: dict[str, Any], other: User, theirs: dict[str, Any], paths: dict[str, str]
) -> None:
    """Of runs, paths, samplers and futures of another user."""
    listed = user.told("listed")
    assert own["run"] in listed and own["session"] in listed
    assert not [name for name in listed if theirs["session"] in name]
    for kind in ("run", "session"):
        assert "404" in user.refused(kind, theirs[kind])
    for sampler in theirs["samplers"]:
        assert "404" in user.refused("sampler", sampler)
        future = {"request_id": f"{sampler}:0"}
        assert other.http("retrieve_future", future)[0] == 200
        assert user.http("retrieve_future", future)[0] == 410
        completed = {"target": {"type": "sampling_session", "sampling_session_id": sampler}}
        assert user.http("retrieve_futures", completed)[0] == 404
    for method, kind in (("begun", "state"), ("load", "state"), ("sample", "weights")):
        user.refused(method, paths[kind])
    for path in paths.values():
        user.refused("delete", path)
        user.refused("publish", path)
    asked = {"model_id": theirs["run"], "seq_id": 100, "path": "stolen"}
    assert user.http("save_weights", asked)[0] == 404
