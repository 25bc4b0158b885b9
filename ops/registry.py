"""What a container registry or a Hugging Face hub calls a name's newest version."""

import os
import re
from typing import Any
from urllib.parse import urlencode

import urllib3

from ops.output import OperationError

HUB = "https://huggingface.co"
DOCKER_HUB = "registry-1.docker.io"
"""Serves what is called docker.io."""
MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
TIMEOUT_SECONDS = 30.0
_REFERENCE = re.compile(r"(?P<host>[^/]+)/(?P<name>[^@]+?)(:(?P<tag>[\w.-]+))?(@.*)?")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def digest_of(image: str) -> str:
    """The digest (`sha256:...`) that an image's tag names now; without a tag, what `docker pull` would take.

    Speaks the OCI distribution API, anonymously: registries that want a token say where to get one. Raises
    OperationError when the registry does not answer, or answers without a digest.
    """
    match = _REFERENCE.fullmatch(image)
    if not match:
        raise OperationError(
            f"image.base_image {image!r} names no registry; write it as host/name@sha256:..."
        )
    url = f"{_base(match['host'])}/v2/{match['name']}/manifests/{match['tag'] or 'latest'}"
    headers = {"Accept": ", ".join(MANIFESTS)}
    response = _request("HEAD", url, headers)
    if response.status == 401:
        headers["Authorization"] = f"Bearer {_token(response.headers.get('www-authenticate', ''), url)}"
        response = _request("HEAD", url, headers)
    digest = _answer(response, url).headers.get("docker-content-digest", "")
    if not _DIGEST.fullmatch(digest):
        raise OperationError(f"{url} tells no sha256 digest (docker-content-digest: {digest!r})")
    return digest


def commit_of(repository: str) -> str:
    """The commit on which the main branch of `models/owner/name` or `datasets/owner/name` stands.

    Asks the hub at HF_ENDPOINT, as huggingface_hub does, with the token in HF_TOKEN if there is one. Raises
    OperationError when it does not answer, or answers without a commit.
    """
    url = f"{os.environ.get('HF_ENDPOINT', HUB).rstrip('/')}/api/{repository}/revision/main"
    token = os.environ.get("HF_TOKEN")
    response = _answer(_request("GET", url, {"Authorization": f"Bearer {token}"} if token else {}), url)
    commit = str(_json(response, url).get("sha", ""))
    if not _COMMIT.fullmatch(commit):
        raise OperationError(f"{url} tells no commit (sha: {commit!r})")
    return commit


def _base(host: str) -> str:
    """As Docker has it: only a registry on this machine speaks without TLS."""
    is_local = host.partition(":")[0] in {"localhost", "127.0.0.1"}
    return f"{'http' if is_local else 'https'}://{DOCKER_HUB if host == 'docker.io' else host}"


def _token(challenge: str, url: str) -> str:
    """Ask where the registry says for a token that may pull."""
    wanted = dict(_CHALLENGE.findall(challenge))
    realm = wanted.pop("realm", None)
    if not challenge.lower().startswith("bearer ") or not realm:
        raise OperationError(f"{url} wants credentials of a kind that is not known here: {challenge!r}")
    address = f"{realm}?{urlencode(wanted)}"
    return str(_json(_answer(_request("GET", address, {}), address), address).get("token", ""))


def _request(method: str, url: str, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
    try:
        return urllib3.request(method, url, headers=headers, timeout=TIMEOUT_SECONDS, retries=2)
    except urllib3.exceptions.HTTPError as error:
        raise OperationError(f"{url} cannot be reached: {error}") from error


def _answer(response: urllib3.BaseHTTPResponse, url: str) -> urllib3.BaseHTTPResponse:
    if response.status != 200:
        raise OperationError(
            f"{url} answered {response.status}; check the name, and the token if it is private"
        )
    return response


def _json(response: urllib3.BaseHTTPResponse, url: str) -> dict[str, Any]:
    try:
        answer = response.json()
    except ValueError as error:
        raise OperationError(f"{url} answered no JSON: {error}") from error
    if not isinstance(answer, dict):
        raise OperationError(f"{url} answered no JSON object")
    return answer
