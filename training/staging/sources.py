"""Where staged files come from.

hf://owner/name[@revision][/folder]             a model on the Hugging Face hub
hf://datasets/owner/name[@revision][/folder]    a data set there
s3://bucket/prefix                              a folder that was staged elsewhere and copied there whole
"""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import botocore.exceptions
import botocore.session
import httpx
from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.hf_api import RepoFile

from training.staging.errors import Interrupted, StagingError
from training.staging.manifest import MANIFEST, Manifest, git_blob_of, sha256_of

CHUNK_BYTES = 64 * 1024
"""Of a read from S3: what a cut connection can lose. The hub's bytes are taken as they come."""
TIMEOUT_SECONDS = 60.0
_COME_BACK_LATER = {408, 429, 500, 502, 503, 504}
_HUB = re.compile(
    r"hf://(?P<kind>datasets/)?(?P<repository>[\w.-]+/[\w.-]+)(@(?P<revision>[\w.-]+))?(/(?P<folder>[^@]+?))?/?"
)
_BUCKET = re.compile(r"s3://(?P<bucket>[a-z0-9.-]{3,63})/(?P<prefix>.+?)/?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file to fetch. `path` is relative to the folder that is staged."""

    path: str
    size_bytes: int
    checksum: str
    checksum_of: Callable[[Path], str]
    """Computes what `checksum` should be."""

    def __post_init__(self) -> None:
        path = PurePosixPath(self.path)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise StagingError(f"the source lists {self.path!r}, outside its own folder; nothing was fetched")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The bytes of a file from `offset` on: from 0 when the service cannot start where it was asked to."""

    offset: int
    chunks: Iterator[bytes]


class Source(Protocol):
    """A folder of files somewhere else.

    Both methods raise StagingError, or Interrupted when another attempt may help.
    """

    @property
    def requested(self) -> str:
        """The address as it was given."""

    def files(self) -> tuple[str, tuple[RemoteFile, ...]]:
        """The address as it was found, with the commit of a branch, and the files there."""

    def open(self, file: RemoteFile, *, offset: int) -> AbstractContextManager[Stream]:
        """The file from `offset` on. Only for files that `files` gave."""


def source_of(address: str, *, token: str | None = None) -> Source:
    """The source that an address names. Raises StagingError when it names none."""
    if match := _HUB.fullmatch(address):
        return HubSource(
            requested=address,
            api=HfApi(token=token or False),
            kind="dataset" if match["kind"] else "model",
            repository=match["repository"],
            revision=match["revision"] or "main",
            folder=match["folder"] or "",
        )
    if match := _BUCKET.fullmatch(address):
        return BucketSource(requested=address, bucket=match["bucket"], prefix=match["prefix"])
    raise StagingError(
        f"source {address!r} is neither hf://owner/name[@revision][/folder] nor s3://bucket/prefix"
    )


@dataclass(frozen=True, kw_only=True)
class HubSource:
    """A folder of a repository on a Hugging Face hub."""

    requested: str
    api: HfApi
    kind: str
    repository: str
    revision: str
    folder: str

    def files(self) -> tuple[str, tuple[RemoteFile, ...]]:
        with self._translating():
            entries = self.api.list_repo_tree(
                self.repository,
                self.folder or None,
                recursive=True,
                revision=self._commit,
                repo_type=self.kind,
            )
            files = tuple(self._remote_file(entry) for entry in entries if isinstance(entry, RepoFile))
        if not files:
            raise StagingError(f"{self.requested} has no files; check the folder's name")
        return f"hf://{self.kind}s/{self.repository}@{self._commit}/{self.folder}".rstrip("/"), files

    @contextmanager
    def open(self, file: RemoteFile, *, offset: int) -> Iterator[Stream]:
        url = hf_hub_url(
            self.repository,
            f"{self.folder}/{file.path}".lstrip("/"),
            revision=self._commit,
            repo_type=self.kind,
            endpoint=self.api.endpoint,
        )
        headers = {
            "Range": f"bytes={offset}-",
            "Accept-Encoding": "identity",  # sizes and offsets are those of the file itself
        }
        if self.api.token:
            headers["Authorization"] = f"Bearer {self.api.token}"  # httpx drops it on the way to other hosts
        with (
            self._translating(),
            httpx.stream(
                "GET", url, headers=headers, follow_redirects=True, timeout=TIMEOUT_SECONDS
            ) as response,
        ):
            response.raise_for_status()
            start = offset if response.status_code == httpx.codes.PARTIAL_CONTENT else 0
            yield Stream(offset=start, chunks=response.iter_raw())

    @cached_property
    def _commit(self) -> str:
        """What the revision points to, fixed for the life of this object: a branch may move meanwhile."""
        info = self.api.repo_info(self.repository, revision=self.revision, repo_type=self.kind)
        return str(info.sha)

    def _remote_file(self, entry: RepoFile) -> RemoteFile:
        return RemoteFile(
            path=entry.path.removeprefix(f"{self.folder}/") if self.folder else entry.path,
            size_bytes=entry.size,
            checksum=entry.lfs.sha256 if entry.lfs else entry.blob_id,
            checksum_of=sha256_of if entry.lfs else git_blob_of,
        )

    @contextmanager
    def _translating(self) -> Iterator[None]:
        """The hub's answers as what they mean here."""
        try:
            yield
        except (httpx.HTTPStatusError, HfHubHTTPError) as error:
            raise self._answer(error.response.status_code) from error
        except httpx.HTTPError as error:
            raise Interrupted(f"{self.api.endpoint}: {error or type(error).__name__}") from error

    def _answer(self, status: int) -> StagingError | Interrupted:
        if status in _COME_BACK_LATER:
            return Interrupted(f"{self.api.endpoint} answered {status}")
        if status in {401, 403}:
            return StagingError(
                f"{self.api.endpoint} refuses {self.requested} ({status}): it is private or gated, or does "
                "not exist; give a token that may read it (staging.hub_token_secret_arn)"
            )
        return StagingError(
            f"{self.api.endpoint} answered {status} for {self.requested}: check repository, revision and "
            "folder"
        )


@dataclass(frozen=True, kw_only=True)
class BucketSource:
    """A folder in S3 that holds the manifest of an earlier staging: for clusters that reach no hub.

    `python -m training.staging --root . hf://...=folder` on any machine, then `aws s3 sync folder s3://...`.
    """

    requested: str
    bucket: str
    prefix: str

    def files(self) -> tuple[str, tuple[RemoteFile, ...]]:
        with self._translating(MANIFEST):
            text = self._client.get_object(Bucket=self.bucket, Key=self._key(MANIFEST))["Body"].read()
        manifest = Manifest.parse(text, where=f"{self.requested}/{MANIFEST}")
        return manifest.origin, tuple(
            RemoteFile(
                path=file.path, size_bytes=file.size_bytes, checksum=file.sha256, checksum_of=sha256_of
            )
            for file in manifest.files
        )

    @contextmanager
    def open(self, file: RemoteFile, *, offset: int) -> Iterator[Stream]:
        with self._translating(file.path):
            body = self._client.get_object(
                Bucket=self.bucket, Key=self._key(file.path), Range=f"bytes={offset}-"
            )["Body"]
            with body:
                yield Stream(offset=offset, chunks=body.iter_chunks(CHUNK_BYTES))

    @cached_property
    def _client(self) -> Any:
        return botocore.session.get_session().create_client("s3")

    def _key(self, path: str) -> str:
        return f"{self.prefix}/{path}"

    @contextmanager
    def _translating(self, path: str) -> Iterator[None]:
        """S3's answers as what they mean here."""
        try:
            yield
        except botocore.exceptions.ClientError as error:
            raise self._answer(path, error) from error
        except botocore.exceptions.BotoCoreError as error:
            raise Interrupted(f"s3://{self.bucket}: {error}") from error

    def _answer(self, path: str, error: botocore.exceptions.ClientError) -> StagingError | Interrupted:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if status in _COME_BACK_LATER:
            return Interrupted(f"s3://{self.bucket} answered {status}")
        return StagingError(
            f"S3 answered {error.response['Error']['Code']} for {self.requested}/{path}: the prefix must "
            f"hold a staged folder with its {MANIFEST}, and the job's role must be allowed to read it"
        )
