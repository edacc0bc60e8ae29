# SPDX-License-Identifier: Apache-2.0
SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := help

ROS_DISTRO ?= jazzy
VENV ?= .venv
VENV_VLLM ?= .venv-vllm
PYTHON ?= python3
WORKERS ?= 2
ARGS ?=
CHECKS ?=
SIM ?= kinematic
export ROS_DISTRO VENV PYTHON
# A sourced ROS installation must not leak into the virtual environment.
unexport PYTHONPATH AMENT_PREFIX_PATH CMAKE_PREFIX_PATH COLCON_PREFIX_PATH

BIN = $(VENV)/bin

.PHONY: changelog golden parameters report session help setup setup-dev setup-vllm setup-mujoco demo test test-browser test-vllm nightly check lint types arch format colcon clean distclean

help:       ## list the targets
	@echo "make TARGET [ROS_DISTRO=jazzy|kilted] [VENV=.venv] [PYTHON=python3]"; echo
	@sed -nE 's/^([a-z-]+):[^#]*## *(.*)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

setup:      ## create or update .venv: packages, compiled interfaces, the llm-planner command
	@scripts/setup_venv.sh

setup-dev:  ## setup, and what tests and checks need
	@scripts/setup_venv.sh --dev

setup-vllm: ## .venv-vllm: the planner with vLLM as its engine (VLLM_BUILD=cpu|gpu)
	@VENV=$(VENV_VLLM) scripts/setup_vllm.sh

setup-mujoco: ## setup, and MuJoCo: robots with bodies (setup-dev has it too)
	@scripts/setup_venv.sh --mujoco

demo:       ## a small fleet plans and flies; writes demo_out/  (SIM=mujoco: with bodies; ARGS="..." are passed on)
demo: $(if $(filter mujoco,$(SIM)),setup-mujoco,setup)
	@"$(BIN)/llm-planner" demo --sim "$(SIM)" $(ARGS)

test:       ## all tests, of product and laboratory, that need no GPU, network or vLLM  (ARGS="tests/core -k clock", WORKERS=2)
# What hangs in C, where no signal reaches it (Fast DDS once did, destroying a node), ends its worker and is run again.
# The limit is more than twice what any test takes: a test and its rerun are one to faulthandler.
test: ENDED = -o faulthandler_timeout=400 -o faulthandler_exit_on_timeout=true
test: setup-dev
	@"$(BIN)/python" -m pytest -n $(WORKERS) --reruns 1 -raR $(ENDED) $(ARGS)

test-vllm:  ## the tests of backend vllm, in .venv-vllm
test-vllm: setup-vllm
	@"$(VENV_VLLM)/bin/python" -m pytest -W default tests/backends/vllm tests/backends/cluster lab/tests/backends/vllm $(ARGS)

test-browser: ## the tests of the dashboard in an installed chromium, with axe-core
test-browser: setup-dev
	@"$(BIN)/python" -m pip install --quiet --requirement requirements/browser.txt --constraint requirements/constraints.txt
	@"$(BIN)/python" -m pytest tests/monitoring/test_browser.py tests/monitoring/test_page.py $(ARGS)

golden:     ## record the plans, tokens and simulated results of fixed seeds again  (ARGS="tests/golden/test_bundled.py")
golden: GOLDEN = tests/golden lab/tests/simulation/test_golden.py
golden: setup-dev
	@RECORD_GOLDEN=1 "$(BIN)/python" -m pytest $(or $(ARGS),$(GOLDEN))

check:      ## lint, types, arch, test
check: lint types arch test

nightly:    ## what .ci/run leaves out: vLLM, installed ROS, browser, long campaigns; skipped where something is missing  (CHECKS="vllm")
nightly: setup-dev
	@VENV_VLLM="$(VENV_VLLM)" MAKE="$(MAKE)" scripts/nightly.sh $(CHECKS)

lint: setup-dev   ## style and spelling
	@"$(BIN)/ruff" format --check . && "$(BIN)/ruff" check . && "$(BIN)/codespell"

types: setup-dev  ## mypy --strict
	@"$(BIN)/mypy"

arch: setup-dev   ## import contracts
	@"$(BIN)/lint-imports"

format: setup-dev ## rewrite the files in style
	@"$(BIN)/ruff" format . && "$(BIN)/ruff" check --fix .

colcon: setup-dev ## build the same tree with colcon into build/ install/ log/, and import it from there
	@scripts/build_colcon.sh

session:    ## type the recorded terminal session of docs/in_charge.md again, and tell what has changed  (ARGS=--record)
session: setup-dev
	@"$(BIN)/python" -m llm_planner_lab.session docs/in_charge.md $(ARGS)

parameters: ## write docs/parameters.md and config/planner.yaml again, from the settings in the code
parameters: setup
	@"$(BIN)/python" scripts/parameters.py

report:     ## the longest source files: split one where a reader gains
	@git ls-files '*.py' | xargs wc -l | sort -rn | awk '$$2 != "total" && $$1 > 300 {print $$1, $$2}'

changelog:  ## gather the fragments of changelog.d/ into CHANGELOG.md and CHANGELOG.rst, at a release
	@$(PYTHON) scripts/changelog.py

clean:      ## remove what was built, except the virtual environments
	@rm -rf build install log demo_out *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	@find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean ## clean, and the virtual environment
	@rm -rf "$(VENV)"
