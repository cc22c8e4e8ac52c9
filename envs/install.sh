#!/bin/sh
# Make .venv hold exactly what envs/<name>.lock pins; does nothing when it already does.
# Usage: sh envs/install.sh <cpu|gpu|torch|jax-tpu|tpu|test> [python]
set -eu
cd "$(dirname "$0")/.."
name=$1 wanted=${2:-}
lock=envs/$name.lock
venv=.venv
stamp=$venv/.installed-$name
fail() { echo "$*" >&2; exit 1; }
. envs/packages.sh
fits() { # runs, and is 3.11 to 3.13; a shim of a Python manager may stand on PATH and not run
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}
version() { "$1" -c 'import sys; print(*sys.version_info[:2])'; }

size() { # of a whole environment on Linux (x86-64); what pip has in its cache is not downloaded again
    case $name in
    cpu) echo "downloads 0.9 GB, takes 3.3 GB of disk and a few minutes" ;;
    test) echo "downloads 1.4 GB, takes 5.4 GB of disk and a few minutes" ;;
    gpu) echo "downloads 4.2 GB, takes about 9 GB of disk" ;;
    jax-tpu) echo "downloads 1.1 GB, takes 4.1 GB of disk and a few minutes" ;;
    torch) echo "downloads 3 GB, takes about 7 GB of disk" ;;
    *) echo "downloads 0.8 GB, takes about 3 GB of disk" ;;
    esac
}
[ -f "$lock" ] || fail "no $lock; ENV is cpu, gpu, torch, jax-tpu or tpu"
if [ -n "$wanted" ]; then
    fits "$wanted" || fail "PYTHON=$wanted does not run as Python 3.11, 3.12 or 3.13; name one that does"
fi

# Programs of an environment hold its full path: a moved folder needs a new one, as does a half-made one.
place=$(pwd -P)
identity="$place $(cksum <"$lock")"
keep=yes
[ "$(cat "$venv/.place" 2>/dev/null)" = "$place" ] && [ ! -e "$venv/.installing" ] && fits "$venv/bin/python" || keep=
[ -z "$wanted" ] || [ -z "$keep" ] || [ "$(version "$wanted")" = "$(version "$venv/bin/python")" ] || keep=
if [ -n "$keep" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$identity" ]; then exit 0; fi
# What overwrites the other's files: TensorFlow for TPUs and the ordinary one; cuDNN of CUDA 12 and of CUDA 13.
for other in cpu gpu torch jax-tpu tpu test; do
    case $name-$other in
    tpu-tpu) ;;
    tpu-* | *-tpu | gpu-torch | torch-gpu) [ ! -e "$venv/.installed-$other" ] || keep= ;;
    esac
done

if [ -z "$keep" ]; then
    python=$wanted
    for candidate in python3.11 python3.12 python3.13 python3; do
        [ -n "$python" ] || ! fits "$candidate" || python=$candidate
    done
    [ -n "$python" ] || fail "no Python 3.11, 3.12 or 3.13 found: install python3.11, or name one: make PYTHON=/path/to/python3.12"
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python cannot make environments: install its venv package (Debian and Ubuntu: python3-venv)"
    echo "Making $venv with $("$python" --version) from $lock: $(size)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    touch "$venv/.installing"
    printf '%s\n' "$place" >"$venv/.place"
else
    echo "Bringing $venv up to $lock"
    touch "$venv/.installing"
fi
lock_into "$venv/bin/python" "$lock" ||
    fail "installing $lock failed, see above; without a network pip needs a package index or wheels in reach"
# The package is used from scripts/ as it stands; the path is relative to site-packages and so holds in any folder.
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo ../../../../scripts >"$site/whichdevice.pth"
printf '#!/bin/sh\nexec "$(dirname "$0")/python" -m whichdevice "$@"\n' >"$venv/bin/whichdevice"
chmod +x "$venv/bin/whichdevice"
printf '%s\n' "$identity" >"$stamp"
rm "$venv/.installing"
