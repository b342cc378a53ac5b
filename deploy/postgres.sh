#!/usr/bin/env bash
# Says how to get PostgreSQL where the machine has none: Headrace runs without it, its tests on PostgreSQL do not.
set -euo pipefail
command -v postgres >/dev/null && exit 0
compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null && exit 0
echo "headrace: there is no PostgreSQL server on this machine, so what is tested on it is skipped; on Debian: apt-get install -y postgresql" >&2
