#!/bin/sh
# TuFT and SkyRL, each with the newest SDK that it speaks with, in environments of their own: .venv-tuft and .venv-skyrl
# beside the checkout's .venv. torch comes first and by its exact version, so that nothing trades it for a build for GPUs.
# TuFT pins vLLM for GPUs and another torch: neither is needed to train on a CPU, so what it does need is listed here.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
python312=${PYTHON312:-python3.12}

"$python" -m venv .venv-tuft
.venv-tuft/bin/python -m pip install "torch==2.13.0"
.venv-tuft/bin/python -m pip install "tinker==0.25.0" "peft==0.20.0" "transformers==5.24.0" "ray==2.56.0" \
	"fastapi<0.137" "uvicorn[standard]" accelerate httpx nvidia-ml-py omegaconf psutil typer \
	opentelemetry-api opentelemetry-sdk opentelemetry-exporter-otlp opentelemetry-instrumentation-fastapi \
	opentelemetry-instrumentation-logging
.venv-tuft/bin/python -m pip install --no-deps "tuft==0.2.2"

"$python312" -m venv .venv-skyrl # pydantic takes SkyRL's typed dictionaries from there on
.venv-skyrl/bin/python -m pip install "torch==2.13.0"
.venv-skyrl/bin/python -m pip install "skyrl[tinker,jax]==0.3.0" "tinker==0.18.2" uv
