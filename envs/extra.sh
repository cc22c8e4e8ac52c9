#!/bin/sh
# Add an extra to .venv, whichever environment that holds; does nothing when it is there.
# Usage: sh envs/extra.sh <cloud|kubernetes|sky|slurm> [--apart]
# --apart: into .venv/apart/<extra>, for PYTHONPATH. Every installed Snakemake plugin is imported at each start.
# sky is SkyPilot, for `whichdevice rent`: always into .venv-sky, as it pins older packages than .venv holds.
set -eu
cd "$(dirname "$0")/.."
name=${1:-} apart=${2:-}
lock=envs/$name.lock
fail() { echo "$*" >&2; exit 1; }
. envs/packages.sh

case $name in
cloud | kubernetes | sky | slurm) ;;
*) fail "no extra '$name'; there are cloud, kubernetes, sky and slurm" ;;
esac
[ -x .venv/bin/python ] || fail "no .venv yet: make environment first"

stamp=.venv/.extra-$name$apart
identity=$(cksum <"$lock")
[ "$name" != sky ] || stamp=.venv-sky/.installed
[ "$(cat "$stamp" 2>/dev/null)" != "$identity" ] || exit 0
set --
if [ "$name" = sky ]; then
    rm -rf .venv-sky
    .venv/bin/python -m venv .venv-sky
    lock_into .venv-sky/bin/python "$lock" ||
        fail "installing $lock failed, see above; pip needs a package index or wheels in reach"
    printf '%s\n' "$identity" >"$stamp"
    exit 0
fi
if [ -n "$apart" ]; then
    rm -rf ".venv/apart/$name"
    set -- --target ".venv/apart/$name"
fi
lock_into .venv/bin/python "$lock" --no-deps "$@" ||
    fail "installing $lock failed, see above; pip needs a package index or wheels in reach"
if [ "$name" = kubernetes ]; then # and what this project adds to its executor
    folder=.venv/apart/$name
    [ -n "$apart" ] || folder=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    ln -sfn "$(pwd -P)/profiles/kubernetes/plugin/snakemake_executor_plugin_gke" "$folder/snakemake_executor_plugin_gke"
fi
printf '%s\n' "$identity" >"$stamp"
