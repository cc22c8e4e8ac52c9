# Sourced by install.sh, extra.sh and lock.sh: the installer of a lock, which is uv; where uv fails, pip.

uv_into() { # uv_into PYTHON: add uv beside this Python
    [ -x "$(dirname "$1")/uv" ] ||
        "$1" -m pip install --quiet --disable-pip-version-check --require-hashes -r envs/uv.lock
}

lock_into() { # lock_into PYTHON LOCK [--no-deps] [--target FOLDER]: install what the lock pins
    python=$1 lock=$2
    shift 2
    # uv does not read pip's settings; the index is the one that people change.
    index=${PIP_INDEX_URL:-$("$python" -m pip config get global.index-url 2>/dev/null || true)}
    [ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
    # Certificates as pip and the system have them. Bytecode now, or the first run's cold start has its compilation.
    export UV_SYSTEM_CERTS=1 UV_COMPILE_BYTECODE="${UV_COMPILE_BYTECODE:-1}"
    quiet=
    [ -t 2 ] || quiet=--quiet # on a terminal uv shows what it downloads
    if uv_into "$python" &&
        "$(dirname "$python")/uv" pip install $quiet --python "$python" --require-hashes -r "$lock" "$@"; then
        return 0
    fi
    echo "uv could not install $lock, pip tries: some minutes"
    # The lock is its own constraint: pip before 23.3 looks for the newest release of a package asked for with an extra.
    "$python" -m pip install --disable-pip-version-check --require-hashes -r "$lock" -c "$lock" "$@"
}
