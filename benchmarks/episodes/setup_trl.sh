#!/bin/sh
# TRL in an environment of its own, .venv-trl beside the checkout's .venv: its dependencies are not
# Warren's. torch comes first and by its exact version, so that nothing trades it for another build.
# (A folder called `vllm` in the current directory breaks TRL's import.)
set -eu
cd "$(dirname "$0")/../.."
"${PYTHON:-python3}" -m venv .venv-trl
.venv-trl/bin/python -m pip install "torch==2.13.0"
.venv-trl/bin/python -m pip install "trl==1.16.0" "transformers==5.23.0"
