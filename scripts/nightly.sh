#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs what .ci/run leaves out, one check after the other, whatever fails; says which passed, failed or were skipped, and why.
#
# usage: scripts/nightly.sh [CHECK...]     all of them if none is named
# variables: VENV (.venv), VENV_VLLM (.venv-vllm), VENV_KILTED (.venv-kilted), ROS_DISTRO (jazzy), FUZZED_PLANS (100000),
#            LLAMACPP_PYTHON (none), MAKE (make)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=${VENV:-.venv}
vllm=${VENV_VLLM:-.venv-vllm}
kilted=${VENV_KILTED:-.venv-kilted}
ros=/opt/ros/${ROS_DISTRO:-jazzy}
make=${MAKE:-make}
python=$venv/bin/python
checks=(vllm kilted ros colcon browser llamacpp chaos plans)
report=()
status=0

# Each prints why a check cannot run here; nothing if it can.
missing_vllm() { [[ -x $vllm/bin/python ]] || echo "there is no $vllm; \`make setup-vllm\` makes it"; }
missing_kilted() { [[ -x $kilted/bin/python ]] || echo "there is no $kilted; \`make setup-dev ROS_DISTRO=kilted VENV=$kilted\` makes it"; }
missing_ros() {
  if [[ ! -e $ros/setup.bash ]]; then
    echo "ROS 2 is not installed in $ros"
  elif ! with_ros "$python" -c "import launch_ros" 2>/dev/null; then
    echo "launch_ros of $ros cannot be imported by $python; it takes the same version of Python"
  fi
}
missing_colcon() { [[ -x $venv/bin/colcon ]] || echo "there is no $venv/bin/colcon; \`make setup-dev\` installs it"; }
missing_browser() {
  command -v chromium chromium-browser google-chrome >/dev/null || echo "no chromium is installed (Debian: apt-get install chromium)"
}
missing_llamacpp() { [[ -n ${LLAMACPP_PYTHON:-} ]] || echo "LLAMACPP_PYTHON names no interpreter with llama.cpp's server (docs/openai.md)"; }
missing_chaos() { [[ -x $python ]] || echo "there is no $venv; \`make setup-dev\` makes it"; }
missing_plans() { missing_chaos; }

with_ros() ( # the venv's own packages come first: only what it lacks is taken from the installation
  set +u
  source "$ros/setup.bash"
  exec "$@"
)

run_vllm() { "$make" test-vllm "VENV_VLLM=$vllm"; }
run_kilted() { "$make" test ROS_DISTRO=kilted "VENV=$kilted"; }
run_ros() { with_ros "$python" -m pytest tests/ros/test_launch.py; }
run_colcon() { "$make" colcon "VENV=$venv"; }
run_browser() { "$make" test-browser "VENV=$venv"; }
run_llamacpp() { "$python" -m pytest tests/backends/openai/test_llamacpp.py; }
run_chaos() { CHAOS=1 "$python" -m pytest lab/tests/bench/chaos; }
run_plans() { FUZZED_PLANS=${FUZZED_PLANS:-100000} "$python" -m pytest --timeout 0 tests/planning/test_campaign.py; }

for name in "$@"; do
  if [[ " ${checks[*]} " != *" $name "* ]]; then
    echo "nightly: no check $name; known are ${checks[*]}" >&2
    exit 2
  fi
done
for name in "${@:-${checks[@]}}"; do
  reason=$("missing_$name")
  if [[ -n $reason ]]; then
    report+=("$name: skipped: $reason")
    continue
  fi
  printf 'nightly: %s\n' "$name"
  started=$SECONDS
  if "run_$name"; then outcome=passed; else outcome=FAILED status=1; fi
  report+=("$name: $outcome after $((SECONDS - started)) s")
done
printf 'nightly: %s\n' "${report[@]}"
exit "$status"
