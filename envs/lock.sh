#!/bin/sh
# Resolve envs/*.in anew into envs/*.lock, pins with hashes for every platform and Python 3.11 to 3.13, and the conda
# environments from them. The resolver lives in a folder of its own. Usage: sh envs/lock.sh PYTHON
set -eu
cd "$(dirname "$0")/.."
. envs/packages.sh
tool=$PWD/.venv-lock
[ -x "$tool/bin/python" ] || "$1" -m venv "$tool"
uv_into "$tool/bin/python"
cd envs

resolve() { # resolve <name> [option...]: existing pins stay unless UPGRADE=1
    name=$1
    shift
    [ -z "${UPGRADE:-}" ] || set -- "$@" --upgrade
    echo "resolving envs/$name.in"
    "$tool/bin/uv" pip compile "$name.in" --output-file "$name.lock" --quiet --universal --python-version 3.11 \
        --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate "$@"
}

resolve uv
resolve cpu
for name in gpu test torch jax-tpu; do resolve "$name" --constraints cpu.lock; done
for name in tpu sky; do resolve "$name"; done
for name in cloud kubernetes slurm; do
    resolve "$name" --constraints test.lock
    "$1" additions.py "$name.lock"
done
"$1" conda.py
