#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Brings the virtual environment up to date: packages from requirements/, compiled interfaces, a link to this checkout.
# What has not changed is not done again: each step leaves a stamp named after the hash of all it depends on.
#
# usage: scripts/setup_venv.sh [--dev | --mujoco | --vllm]     variables: VENV (.venv), ROS_DISTRO (jazzy), PYTHON (python3)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=$(realpath -m "${VENV:-.venv}")
distro=${ROS_DISTRO:-jazzy}
python=${PYTHON:-python3}
stamps=$venv/.stamps
started=$SECONDS

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }
is_done() { [[ -e $stamps/$1-$2 ]]; }
mark() { mkdir -p "$stamps" && rm -f "$stamps/$1"-* && touch "$stamps/$1-$2"; }

# Says every ten seconds that there is work: pip and cmake are silent for minutes. It holds neither lock nor pipe at the end.
tell_time() {
  trap 'kill $! 2>/dev/null; exit 0' TERM
  while true; do
    sleep 10 & wait $!
    say "still at work after $((SECONDS - started)) s"
  done
}

# Says so before pip fetches gigabytes that this machine cannot use; the way around it is the user's to choose.
warn_of_cuda() {
  [[ -e /dev/nvidiactl ]] || "$venv/bin/python" -m pip show --quiet torch 2>/dev/null && return
  "$venv/bin/python" -m pip install --quiet --dry-run --no-deps --report - "$(grep '^torch==' requirements/runtime.txt)" \
    2>/dev/null | grep '+cpu"' >/dev/null && return
  say "no GPU here, yet pip finds only the CUDA build of torch (several GB); a CPU build: docs/install.md"
}

[[ -f requirements/ros-$distro.txt ]] || fail "no requirements for ROS 2 '$distro'; set ROS_DISTRO=jazzy or kilted"
groups=(runtime plots)
if [[ ${1:-} == --dev ]]; then groups+=(dev); fi
if [[ ${1:-} == --vllm ]]; then groups=(vllm plots dev "vllm-${VLLM_BUILD:-cpu}"); fi # scripts/setup_vllm.sh

# A ROS installation that happens to be sourced must not leak into this one.
unset PYTHONPATH AMENT_PREFIX_PATH CMAKE_PREFIX_PATH COLCON_PREFIX_PATH _ROS_WHEELS_BOOTSTRAP_COMPLETE
export PIP_DISABLE_PIP_VERSION_CHECK=1

# --- the environment -------------------------------------------------------------------------------------------------
location=$(sha256sum <<<"$venv" | cut -c1-16)
if compgen -G "$stamps/location-*" >/dev/null && ! is_done location "$location"; then
  say "$venv was made for another place (its scripts hold absolute paths): making it again"
  rm -rf "$venv"
fi
mkdir -p "$venv"
exec 9>"$venv/.setup.lock"
flock 9 # two `make` at once: the second waits, then finds the stamps
tell_time 9>&- &
teller=$!
trap 'kill $teller; wait $teller || true' EXIT
if ! "$venv/bin/python" -m pip --version &>/dev/null; then
  "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' ||
    fail "$("$python" --version 2>&1) will not do: the pinned packages need Python 3.11 to 3.13; set PYTHON=/path/to/python"
  say "creating $venv with $("$python" --version)"
  "$python" -m venv "$venv"
fi
mark location "$location"
version=$("$venv/bin/python" -c 'import sys; print(*sys.version_info[:3], sys.platform)')

# --- packages --------------------------------------------------------------------------------------------------------
constraints=(requirements/constraints.txt "requirements/constraints-$distro.txt")
files=("requirements/ros-$distro.txt" "requirements/build-$distro.txt")
if [[ ${1:-} == --vllm ]]; then # vLLM brings others of these; the interfaces compile with them too
  constraints[0]=requirements/constraints-vllm.txt
  files[1]=$venv/build-vllm.txt
  grep -vE '^(numpy|setuptools|lark-parser)==' "requirements/build-$distro.txt" >"${files[1]}"
fi
for group in "${groups[@]}"; do files+=("requirements/$group.txt"); done
key_of() { (cat "$@" "${constraints[@]}"; echo "$version") | sha256sum | cut -c1-16; }
key=$(key_of "${files[@]}")
group=${groups[-1]}
if ! is_done "$group" "$key"; then
  warn_of_cuda
  say "installing ${files[*]}"
  "$venv/bin/python" -m pip install --quiet --no-compile \
    "${files[@]/#/--requirement=}" "${constraints[@]/#/--constraint=}"
  for ((n = 1; n <= ${#groups[@]}; n++)); do # a group contains those before it
    mark "${groups[n - 1]}" "$(key_of "${files[@]:0:n+2}")"
  done
fi

# Robot drivers of others, which only tests need: without the video packages that they ask for.
key=$(key_of requirements/drivers.txt)
if [[ " ${groups[*]} " == *" dev "* ]] && ! is_done drivers "$key"; then
  "$venv/bin/python" -m pip install --quiet --no-compile --no-deps --requirement=requirements/drivers.txt
  mark drivers "$key"
fi

# Physics, for `make demo SIM=mujoco`; dev has it among its own.
key=$(key_of requirements/sim.txt)
if [[ ${1:-} == --mujoco ]] && ! is_done mujoco "$key"; then
  say "installing requirements/sim.txt"
  "$venv/bin/python" -m pip install --quiet --no-compile \
    --requirement=requirements/sim.txt "${constraints[@]/#/--constraint=}"
  mark mujoco "$key"
fi

# --- interfaces ------------------------------------------------------------------------------------------------------
data=()
for dir in config launch models profiles robot_models worlds; do if [[ -d $dir ]]; then data+=("$dir"); fi; done
ros_key=$( (cat "requirements/"{ros,build,constraints}"-$distro.txt"; echo "$version $PWD") | sha256sum | cut -c1-16)
key=$( (sha256sum CMakeLists.txt package.xml cmake/*.* msg/* srv/* action/* llm_planner/__init__.py llm_planner/engine/kernels.cpp
        echo "$ros_key ${data[*]} $(echo launch/*)") | sha256sum | cut -c1-16)

# Configures and compiles interfaces: what to call them, source, build directory, more options for cmake.
compile() {
  say "compiling $1 ($distro)"
  for tool in cc c++; do command -v $tool >/dev/null || fail "no C and C++ compiler: install gcc and g++"; done
  local log=$3/setup.log
  mkdir -p "$3"
  cmake -S "$2" -B "$3" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF "${@:4}" \
    -DCMAKE_INSTALL_PREFIX="$venv" -DPython3_EXECUTABLE="$venv/bin/python" \
    -DCMAKE_PROJECT_INCLUDE="$PWD/cmake/pip_ros_fixups.cmake" >"$log" 2>&1 &&
    cmake --build "$3" >>"$log" 2>&1 || { tail -40 "$log" >&2; fail "cannot compile $1; see $log"; }
}
install_from() {
  local log=$1/setup.log
  cmake --install "$1" >>"$log" 2>&1 || { tail -40 "$log" >&2; fail "cannot install; see $log"; }
}

if ! is_done interfaces "$key"; then
  export AMENT_PREFIX_PATH=$venv CMAKE_PREFIX_PATH=$venv PATH=$venv/bin:$PATH
  build=$venv/interfaces-$ros_key
  compile "the ROS 2 interfaces and the kernels" . "$build" -DLLM_PLANNER_DEVELOP=ON
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
  rm -rf "$site/llm_planner" "$venv"/lib/libllm_planner__*.so # of interfaces that may be gone by now
  install_from "$build"
  (cd / && "$venv/bin/python" -c 'import llm_planner.action, llm_planner.core, llm_planner.msg, llm_planner.srv') ||
    fail "the installed interfaces cannot be imported"
  mark interfaces "$key"
fi

# The laboratory: importable from this checkout, its commands known to llm-planner.
key=$( (sha256sum lab/pyproject.toml; echo "$version $PWD") | sha256sum | cut -c1-16)
if [[ " ${groups[*]} " == *" dev "* ]] && ! is_done laboratory "$key"; then
  "$venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable lab
  mark laboratory "$key"
fi

# The message of /tf, while it is in no wheel: this environment is ours alone, and no ROS installation is in it.
key=$( (sha256sum cmake/pip_ros_fixups.cmake $(find cmake/tf2_msgs -type f | sort); echo "$ros_key") | sha256sum | cut -c1-16)
if ! is_done tf2_msgs "$key" && ! "$venv/bin/python" -m pip show --quiet ros-tf2-msgs 2>/dev/null; then
  export AMENT_PREFIX_PATH=$venv CMAKE_PREFIX_PATH=$venv PATH=$venv/bin:$PATH
  compile "tf2_msgs" cmake/tf2_msgs "$venv/tf2_msgs-$ros_key"
  install_from "$venv/tf2_msgs-$ros_key"
  (cd / && "$venv/bin/python" -c 'import tf2_msgs.msg') || fail "the installed tf2_msgs cannot be imported"
  mark tf2_msgs "$key"
fi
if ((SECONDS - started > 2)); then say "ready after $((SECONDS - started)) s"; fi
