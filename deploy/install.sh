#!/usr/bin/env bash
# Makes .venv with everything Headrace needs on a machine without a GPU; a second run finds it made and does nothing.
# Stamps are named by the hash of what was asked for, so a changed requirement installs again and nothing else does.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=deploy/requirements
stamp=.venv/.requirements-$(cat "$requirements"/*.txt | sha256sum | cut -c 1-16)
project_stamp=.venv/.project-$(sha256sum pyproject.toml | cut -c 1-16)
[ -e "$stamp" ] && [ -e "$project_stamp" ] && exit 0

if [ ! -x .venv/bin/python ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    python=${PYTHON:-$(command -v python3.11 || command -v python3 || true)}
    if [ -z "$python" ] || ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
        echo "headrace: Python 3.11 is needed (on Debian: apt install python3.11 python3.11-venv), or set PYTHON=/path/to/python3.11" >&2
        exit 1
    fi
    "$python" -m venv --clear .venv || {
        echo "headrace: could not make .venv; on Debian the venv module is a package of its own: apt install python3.11-venv" >&2
        exit 1
    }
fi

started=$SECONDS
step() {
    echo "headrace: [$((SECONDS - started)) s] $1"
    shift
    .venv/bin/python -m pip install --disable-pip-version-check "$@" | { grep --line-buffered -v '^Requirement already satisfied' || true; } || {
        echo "headrace: that install step failed; pip's lines above say why. Run the same make target again to go on from here." >&2
        exit 1
    }
}
if [ ! -e "$stamp" ]; then
    step "1 of 4: torch" -r "$requirements/torch.txt"
    step "2 of 4: what Headrace, its trainer and its tests import" -r "$requirements/runtime.txt" -r "$requirements/dev.txt"
    step "3 of 4: SGLang for the CPU" --no-deps -r "$requirements/sglang-cpu.txt"
    rm -f .venv/.requirements-*
    touch "$stamp"
fi
step "4 of 4: Headrace itself" --no-deps --no-build-isolation --editable .
rm -f .venv/.project-*
touch "$project_stamp"
echo "headrace: installed into .venv in $((SECONDS - started)) s"
deploy/postgres.sh
