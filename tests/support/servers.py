"""Servers of others on loopback, each in a process of its own: LFS, S3, Google's and Azure's.

with giftless(folder) as url:       an LFS server; `<url>/<organisation>/<name>.git/info/lfs`
with moto() as url:                 an S3 server; AWS_ENDPOINT_URL for those who use it
with google() as url:               Google's API, with the bucket `maps`; STORAGE_EMULATOR_HOST
with sshd(folder) as server:        OpenSSH; GIT_SSH_COMMAND for those who log in
with azurite() as url:              Azure's, with AZURE_ENVIRONMENT; AZURITE_BLOB_STORAGE_URL
"""

import getpass
import os
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

__all__ = [
    "AZURE_ACCOUNT",
    "AZURE_ENVIRONMENT",
    "S3_ENVIRONMENT",
    "SshServer",
    "asked_of",
    "azurite",
    "giftless",
    "google",
    "has_azurite",
    "has_giftless",
    "has_google",
    "has_moto",
    "has_sshd",
    "moto",
    "sshd",
]

S3_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "somebody",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}

AZURE_ENVIRONMENT = {
    # The one account of the emulator, and its key, which everybody knows.
    "AZURE_STORAGE_KEY": "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/"
    "K1SZFPTOtr/KBHBeksoGMGw==",
}
AZURE_ACCOUNT = "devstoreaccount1"

_SERVE = """
import warnings
warnings.simplefilter("ignore")
from werkzeug.serving import WSGIRequestHandler, make_server
class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"
    def log(self, *arguments): pass
server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
print(server.port, flush=True)
server.serve_forever()
"""
_GIFTLESS = "from giftless.app import init_app\napp = init_app()\n" + _SERVE
_MOTO = (
    """
import json
import threading
from fnmatch import fnmatchcase
from urllib.parse import parse_qs
from moto.server import DomainDispatcherApplication, create_backend_app
served = DomainDispatcherApplication(create_backend_app)
asked = []
one_by_one = threading.Lock()
def may(environment):
    # Keys of a role may do what the policy of their session says, as with Amazon.
    from moto.sts.models import sts_backends
    token = environment.get("HTTP_X_AMZ_SECURITY_TOKEN")
    roles = [] if token is None else sts_backends["123456789012"]["aws"].assumed_roles
    policies = [each.policy for each in roles if each.session_token == token]
    if token is not None and not policies:
        return False
    if not policies or policies[0] is None:
        return True
    query = parse_qs(environment.get("QUERY_STRING", ""), keep_blank_values=True)
    bucket, _, key = environment["PATH_INFO"].lstrip("/").partition("/")
    uploads = "uploadId" in query
    match environment["REQUEST_METHOD"]:
        case "GET" | "HEAD": action = "s3:GetObject" if key else "s3:ListBucket"
        case "POST" if "delete" in query: action = "s3:DeleteObject"
        case "DELETE": action = "s3:AbortMultipartUpload" if uploads else "s3:DeleteObject"
        case _: action = "s3:PutObject"
    name = f"arn:aws:s3:::{bucket}" + (f"/{key}" if key else "")
    prefix = query.get("prefix", [""])[0]
    def holds(each):
        like = each.get("Condition", {}).get("StringLike", {}).get("s3:prefix", ["*"])
        return (
            action in each["Action"]
            and any(fnmatchcase(name, pattern) for pattern in each["Resource"])
            and any(fnmatchcase(prefix, pattern) for pattern in like)
        )
    return any(holds(each) for each in json.loads(policies[0])["Statement"])
def app(environment, start):
    if environment["PATH_INFO"] == "/-/asked":
        text = "\\n".join(asked).encode()
        asked.clear()
        start("200 OK", [("Content-Length", str(len(text)))])
        return [text]
    asked.append(environment["REQUEST_METHOD"] + " " + environment["PATH_INFO"])
    if not may(environment):
        text = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
        start("403 Forbidden", [("Content-Length", str(len(text)))])
        return [text if environment["REQUEST_METHOD"] != "HEAD" else b""]
    if "HTTP_IF_NONE_MATCH" in environment:
        # A real store looks and writes at once; this one would let a second in between.
        with one_by_one:
            return served(environment, start)
    return served(environment, start)
"""
    + _SERVE
)
_GOOGLE = """
import socket
from gcp_storage_emulator.server import create_server
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
server = create_server("127.0.0.1", port, in_memory=True, default_bucket="maps")
server.start()
print(port, flush=True)
import threading
threading.Event().wait()
"""

_SETTINGS = """
LEGACY_ENDPOINTS: false
TRANSFER_ADAPTERS:
  basic:
    factory: giftless.transfer.basic_streaming:factory
    options:
      storage_class: giftless.storage.local_storage:LocalStorage
      storage_options:
        path: {folder}
AUTH_PROVIDERS:
  - giftless.auth.allow_anon:read_write
PRE_AUTHORIZED_ACTION_PROVIDER:
  factory: giftless.auth.jwt:factory
  options:
    algorithm: HS256
    private_key: nobody-else-is-on-loopback-in-a-test
    default_lifetime: 600
"""


def has_giftless() -> bool:
    return find_spec("giftless") is not None and find_spec("flask_marshmallow") is not None


def has_moto() -> bool:
    return find_spec("moto") is not None and find_spec("flask_cors") is not None


def has_google() -> bool:
    return find_spec("gcp_storage_emulator") is not None


@contextmanager
def giftless(folder: Path) -> Iterator[str]:
    """Serve LFS objects from a folder."""
    with _running(_GIFTLESS, {"GIFTLESS_CONFIG_STR": _SETTINGS.format(folder=folder)}) as url:
        yield url


@contextmanager
def moto() -> Iterator[str]:
    """Serve S3 from memory."""
    with _running(_MOTO, S3_ENVIRONMENT) as url:
        yield url


@contextmanager
def google() -> Iterator[str]:
    """Serve Google's API of stores from memory."""
    with _running(_GOOGLE, {}) as url:
        yield url


def has_azurite() -> bool:
    return _azurite() is not None


def _azurite() -> str | None:
    """Return the program of Azurite: what scripts/azurite.sh installed, or the system has."""
    own = Path(__file__).parents[2] / ".engines" / "azure" / "node_modules" / ".bin"
    return shutil.which("azurite-blob", path=str(own)) or shutil.which("azurite-blob")


@contextmanager
def azurite() -> Iterator[str]:
    """Serve Azure's API of blobs from memory."""
    command = [str(_azurite()), "--inMemoryPersistence", "--disableTelemetry", "--silent"]
    command += ["--skipApiVersionCheck", "--blobHost", "127.0.0.1", "--blobPort", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            lines = (line.rpartition("listens on ")[2].strip() for line in process.stdout)
            yield next(line for line in lines if line.startswith("http://"))
        finally:
            process.kill()


def has_sshd() -> bool:
    return _sshd() is not None and shutil.which("ssh") is not None


def _sshd() -> str | None:
    return shutil.which("sshd") or shutil.which("/usr/sbin/sshd")


@dataclass(frozen=True)
class SshServer:
    """A server that lets in who has the key that was made for it."""

    address: str
    """`user@host:port`."""
    command: str
    """How ssh is run to get in."""


@contextmanager
def sshd(folder: Path) -> Iterator[SshServer]:
    """Let the user of this process in by SSH; what belongs to it lies in a folder."""
    program = _sshd()
    assert program is not None
    for name in ("host", "user"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(make, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    known = (folder / "host.pub").read_text()
    (folder / "known").write_text(f"[127.0.0.1]:{port} {known}")
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/user.pub\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nPermitRootLogin yes\nMaxStartups 100\n"
        "Subsystem sftp internal-sftp\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where root's sshd wants to be
    command = [program, "-D", "-e", "-f", str(folder / "sshd_config")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert "listening" in said, said
            drained = threading.Thread(target=process.stderr.read, daemon=True)
            drained.start()
            yield SshServer(
                f"{getpass.getuser()}@127.0.0.1:{port}",
                f"ssh -F none -i {folder}/user -o IdentitiesOnly=yes "
                f"-o UserKnownHostsFile={folder}/known -o StrictHostKeyChecking=yes",
            )
        finally:
            process.kill()


def asked_of(url: str) -> list[str]:
    """Return the requests that a server of `moto` got since this was asked last."""
    with urllib.request.urlopen(f"{url}/-/asked") as answer:
        data: bytes = answer.read()
    return data.decode().splitlines()


@contextmanager
def _running(program: str, environment: Mapping[str, str]) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, "the server did not start"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()
