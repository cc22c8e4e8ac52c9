"""The key to each machine and its known host keys, in a folder of this person alone, gone with the machine."""

import os
import shutil
import subprocess
from pathlib import Path

from whichdevice.errors import StudyError

KEYGEN_PATIENCE = 60.0


def state_folder() -> Path:
    """Where keys of machines lie: $XDG_STATE_HOME/whichdevice/tpu, by default below ~/.local/state."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "whichdevice" / "tpu"


class Keys:
    """Private key and known hosts of one machine."""

    def __init__(self, name: str, own: str | None = None) -> None:
        self.name = name
        self.folder = state_folder() / name
        self.private = Path(own).expanduser() if own else self.folder / "id_ed25519"
        self.known_hosts = self.folder / "known_hosts"

    def make(self) -> str:
        """The public key; a pair made for this machine alone unless the config names one. Raises StudyError."""
        try:
            self.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
            if self.private.parent == self.folder and not self.private.exists():
                _generate(self.private, self.name)
            return _public_of(self.private).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise StudyError(f"tpu_vm.ssh_key: {error.filename}: {error.strerror}; ssh needs a key pair") from error

    def trust(self, address: str, port: int, host_keys: list[str]) -> None:
        """Write down the host keys that the API told; with none, ssh writes down the first that it meets."""
        host = address if port == 22 else f"[{address}]:{port}"
        self.known_hosts.write_text("".join(f"{host} {key}\n" for key in host_keys), encoding="utf-8")

    def forget(self) -> None:
        """Remove the folder; a machine that is gone needs no key."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _generate(private: Path, comment: str) -> None:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(private)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=KEYGEN_PATIENCE, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise StudyError("no ssh-keygen on this machine: install OpenSSH's client (openssh-client)") from None
    except subprocess.SubprocessError as error:
        raise StudyError(f"ssh-keygen could not make a key in {private.parent}: {error}") from error


def _public_of(private: Path) -> Path:
    return private.with_name(private.name + ".pub")
