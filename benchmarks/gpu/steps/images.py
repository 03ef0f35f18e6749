# pyright: basic, reportPrivateUsage=false, reportArgumentType=false
"""A model that sees: logprobs of turns with images against transformers', on a tiny Qwen2.5-VL."""

import numpy as np
import torch
from benchmarks.gpu.sampler import KEY, ask, finish, settings
from benchmarks.gpu.step import Setting
from tests.support import seeing_models
from tests.support.seeing_models import BEGIN, BOS, END, IMAGE, noise, seeing_logprobs
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.base_models.vision_inputs import Placed, VisionInputs
from warren_gpu_worker.sampler.engines.choice import open_engine
from warren_gpu_worker.sampler.engines.port import Request
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_schemas.config import Sampling

_N_TURNS, _N_TEXT = 8, 6


def run(setting: Setting) -> None:
    folder = _made(setting)
    vision = VisionInputs(folder)
    own = settings(folder, setting.device, "full", "float32", share=0.3)
    engine = open_engine(folder, own, Endings([seeing_models.EOS], str), vision)
    engine.load(KEY, 0, None)
    asked = [_request(vision, i) for i in range(_N_TURNS)]
    ask(engine, asked)
    finish(engine)
    base = load_base(folder)
    gaps = [
        float(np.abs(seeing_logprobs(base, request, request.ids_T) - request.logprobs_T).max())
        for request in asked
    ]
    n_tokens = sum(request.ids_T.size for request in asked)
    setting.report(turns=_N_TURNS, tokens=n_tokens, **{"largest gap": max(gaps)})


def _made(setting: Setting) -> str:
    folder = setting.scratch / "models" / "seeing"
    if not (folder / "config.json").exists():
        torch.manual_seed(0)
        seeing_models._make_model().save_pretrained(folder)
        seeing_models._make_tokenizer().save_pretrained(folder)
        sizes = {
            "min_pixels": 4 * seeing_models._SIDE**2,
            "max_pixels": 16 * seeing_models._SIDE**2,
        }
        Qwen2VLImageProcessorPil(**sizes).save_pretrained(folder)
    return str(folder)


def _request(vision: VisionInputs, number: int) -> Request:
    rng = np.random.default_rng(number)
    picture = vision.see(noise(number))
    text = rng.integers(7, 60, 2 * _N_TEXT).tolist()
    begin = [BOS, *text[:_N_TEXT], BEGIN]
    prompt = np.array([*begin, *[IMAGE] * picture.n_tokens, END, *text[_N_TEXT:]], np.int32)
    placed = (Placed(len(begin), picture),)
    return Request(number, KEY, prompt, Sampling(max_tokens=10), pictures=placed)
