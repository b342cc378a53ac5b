#!/usr/bin/env bash
# Makes the environment of Hermes Agent for the tests and prints where its Python is; a second run finds it made.
# It cannot share ours: it pins other versions and has a package `gateway` of its own. 63 packages, 140 MB, 11 s of CPU.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${HEADRACE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/headrace}
target=$cache/agents/hermes-$(sha256sum deploy/agents/hermes.txt | cut -c 1-16)
mkdir -p "$cache/agents"
exec 9>"$target.lock"
flock 9 # two test runs at once: the second waits for the first and finds it made
if [ ! -e "$target/.complete" ]; then
    started=$SECONDS
    .venv/bin/python -m venv --clear --without-pip "$target" >&2
    .venv/bin/python -m pip --python "$target/bin/python" install --disable-pip-version-check --quiet --no-compile \
        --retries 2 --timeout 30 --no-deps -r deploy/agents/hermes.txt >&2 || {
        echo "headrace: Hermes Agent could not be installed into $target; pip's lines above say why (is a package index reachable?)" >&2
        exit 1
    }
    touch "$target/.complete"
    echo "headrace: Hermes Agent installed in $((SECONDS - started)) s" >&2
fi
echo "$target/bin/python"
