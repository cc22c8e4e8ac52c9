#!/bin/sh
# On a rented machine, in the project's folder: make each environment and measure what it can of ~/study.json.
# Usage: [SCRIPT=train.py] sh envs/rented.sh <gpu|tpu> <environment>... (a script is looked at there, too)
set -eu
kind=$1 python=
shift
for each in python3.11 python3.12 python3.13; do
    [ -n "$python" ] || ! "$each" -c 'import ensurepip, venv' 2>/dev/null || python=$each
done
if [ -z "$python" ]; then # Google's images have Python 3.10
    python=python3.11
    sudo apt-get -o DPkg::Lock::Timeout=600 -q update
    sudo DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 -qy install python3.11 python3.11-venv
fi
for environment in "$@"; do
    sh envs/install.sh "$environment" "$python"
    [ -z "${SCRIPT:-}" ] || PYTHONPATH=scripts .venv/bin/python -m whichdevice.models.script.look "$SCRIPT"
    PATH="$PWD/.venv/bin:$PATH" snakemake --cores 1 "$kind" --configfile "$HOME/study.json"
done
