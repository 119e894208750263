"""Settings by which git signs, with a key of ssh made for the test."""

import subprocess
from pathlib import Path

__all__ = ["signing_with_ssh"]


def signing_with_ssh(folder: Path) -> dict[str, str]:
    """Return settings by which git signs each commit, and finds its signatures good."""
    key = folder / "key"
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)]
    subprocess.run(command, check=True)
    signers = folder / "signers"
    signers.write_text(f"* {key.with_suffix('.pub').read_text()}")
    return {
        "commit.gpgsign": "true",
        "gpg.format": "ssh",
        "gpg.ssh.allowedSignersFile": str(signers),
        "user.signingkey": str(key),
    }
