# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (transformers leaves parts of its interface untyped)
"""Every kind of job, by a script with the SDK alone, from another folder and for another user.

A data set is uploaded and learned; base model and result are evaluated and compared; training goes on from there; its best
episodes are learned by another model; the winner is served by name, asked while the name is repointed, and downloaded.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.support.deployment import Site
from tests.support.patience import whole_deployment
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import start_program
from tests.support.small_install import small_python
from tests.system.service.scene import Scene, User
from transformers import AutoModelForCausalLM, AutoTokenizer

pytestmark = [pytest.mark.tour, whole_deployment]

SCRIPT = Path(__file__).with_name("every_kind_of_job.py")
QUESTION, RIGHT = "7+2=", "9"
ALPHA = 0.05


@pytest.fixture
async def ann(tmp_path: Path, private_rabbit: PrivateRabbit) -> AsyncGenerator[User]:
    """Somebody with a key, and a folder with nothing in it."""
    (tmp_path / "home").mkdir()
    scene = Scene(Site(tmp_path / "home", private_rabbit.url, None), tmp_path)
    try:
        await scene.site.start_all()
        yield await scene.new_user("ann")
    finally:
        await asyncio.to_thread(scene.site.stop)


async def test_one_evening(ann: User, capsys: pytest.CaptureFixture[str]) -> None:
    told = await run_script(ann)
    with capsys.disabled():
        print(f"\n{json.dumps(told, indent=1)}")
    scores = told["scores"]
    assert scores["base"] == 0.0
    assert min(scores["tuned"], scores["distilled"]) > 0.5
    assert set(told["categories"]) == set(told["categories_tested"]) == {"plus", "times"}
    assert told["test"]["difference"] > 0.5 and told["test"]["p_value"] < ALPHA
    assert told["resumed_step"] == 4
    assert 0 < told["n_best"] <= 20
    assert told["is_exact"], "other tokens were learned than those that were sampled"
    assert told["served"] == ["calculator"]
    assert told["logged"] == ["coordinator", "env_worker", "sampler", "trainer"]
    before, after = told["answers"][0], told["answers"][-1]
    assert before != RIGHT and after == RIGHT
    changed = told["answers"].index(RIGHT)
    assert told["answers"] == [before] * changed + [RIGHT] * (len(told["answers"]) - changed)
    (base,) = (ann.folder.parent / "home" / "models" / "warren").glob("tiny-r*")
    assert answer_of(ann.folder / "winner", base) == RIGHT


async def run_script(user: User) -> dict[str, Any]:
    process = await start_program(
        *small_python(SCRIPT.read_text()),
        environment={"WARREN_URL": user.url, "WARREN_API_KEY": user.key, "HOME": str(user.folder)},
        folder=user.folder,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return json.loads(out.splitlines()[-1])


def answer_of(folder: Path, base: Path) -> str:
    """By transformers alone; the tokenizer is the base model's."""
    tokenizer: Any = AutoTokenizer.from_pretrained(base)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    chat = [{"role": "user", "content": QUESTION}]
    ids = tokenizer.apply_chat_template(chat, return_tensors="pt", return_dict=False)
    said = model.generate(ids, max_new_tokens=4, do_sample=False)[0, ids.shape[1] :]
    return tokenizer.decode(said, skip_special_tokens=True)
