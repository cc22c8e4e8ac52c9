#!/bin/sh
# Make .venv-google-batch hold exactly what envs/google-batch.lock pins; does nothing when it already does. Its executor
# wants an older client of Google's storage than .venv has. Usage: sh envs/google-batch.sh [--apart]
# --apart: only what .venv lacks, into .venv/apart/google-batch, for PYTHONPATH: enough to submit jobs, as the tests do.
set -eu
cd "$(dirname "$0")/.."
lock=envs/google-batch.lock
fail() { echo "$*" >&2; exit 1; }
[ -x .venv/bin/python ] || fail "no .venv yet: make environment first"
place=$(pwd -P)
identity="$place $(cksum <"$lock")"

if [ "${1:-}" = --apart ]; then
    folder=.venv/apart/google-batch stamp=.venv/.extra-google-batch--apart
    [ "$(cat "$stamp" 2>/dev/null)" != "$identity" ] || exit 0
    rm -rf "$folder"
    mkdir -p "$folder"
    PYTHONPATH=envs .venv/bin/python -c 'import sys, additions; own, common = (open(name).read() for name in sys.argv[1:]); print(additions.additions(own, [common]))' \
        "$lock" envs/cpu.lock >"$folder/added.txt"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
        -r "$folder/added.txt" --target "$folder" || fail "installing $lock failed, see above"
    ln -s "$place/profiles/google-batch/plugin/snakemake_executor_plugin_gcbatch" "$folder/"
    printf '%s\n' "$identity" >"$stamp"
    exit 0
fi

venv=.venv-google-batch
[ "$(cat "$venv/.installed" 2>/dev/null)" != "$identity" ] || exit 0
rm -rf "$venv"
.venv/bin/python -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock" ||
    fail "installing $lock failed, see above; pip needs a package index or wheels in reach"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '../../../../%s\n' scripts profiles/google-batch/plugin >"$site/whichdevice.pth"
printf '%s\n' "$identity" >"$venv/.installed"
