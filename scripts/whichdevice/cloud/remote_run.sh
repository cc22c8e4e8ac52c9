# On the machine, in the project's folder: the software stack, then the study. ENVIRONMENT is set in front of this; the
# arguments are Snakemake's. The file ../stage says how far it came.
set -eu
echo install >../stage
if [ -d .git ]; then # came without empty folders and without an index
    mkdir -p .git/refs && git config core.bare false && git reset --quiet || rm -rf .git
fi
python=
for candidate in python3.11 python3.12; do
    [ -n "$python" ] || ! "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1 || python=$candidate
done
if [ -z "$python" ]; then # Google's images carry Python 3.10
    python=python3.11
    wait='-o DPkg::Lock::Timeout=600' # the image updates itself after its first boot
    sudo apt-get $wait -q update
    sudo DEBIAN_FRONTEND=noninteractive apt-get $wait -qy install "$python" "$python-venv"
fi
sh envs/install.sh "$ENVIRONMENT" "$python"
echo measure >../stage
PATH="$PWD/.venv/bin:$PATH" snakemake "$@"
echo done >../stage
