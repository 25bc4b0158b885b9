"""The record of a staged folder, and the checksums in it."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from training.staging.errors import StagingError

MANIFEST = "staging-manifest.json"
_BLOCK_BYTES = 4 * 1024 * 1024

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class StagedFile(BaseModel):
    """One file, by its path under the folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    size_bytes: int = Field(ge=0)
    sha256: Sha256


class Manifest(BaseModel):
    """What a folder holds and where it came from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    requested: str
    """The source as it was asked for: `hf://owner/name@main/folder`."""
    origin: str
    """The source as it was found, with the commit that a branch pointed to."""
    files: tuple[StagedFile, ...]

    @classmethod
    def parse(cls, text: str | bytes, *, where: str) -> Self:
        """Raises StagingError when the text is no manifest."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise StagingError(
                f"{where} is not a staging manifest ({error.error_count()} faults, the first: "
                f"{error.errors()[0]['msg']}); delete it and stage again"
            ) from error

    @classmethod
    def of(cls, folder: Path) -> Self | None:
        """The folder's manifest, or None when the folder was never completed."""
        path = folder / MANIFEST
        return cls.parse(path.read_text(), where=str(path)) if path.exists() else None

    def write(self, folder: Path) -> None:
        """Replace the folder's manifest; a reader sees the old one or the new one, never a part."""
        draft = folder / f".{MANIFEST}.draft"
        draft.write_text(self.model_dump_json(indent=2) + "\n")
        sync(draft)
        draft.replace(folder / MANIFEST)

    def damage(self, folder: Path, *, rehash: bool) -> list[str]:
        """Files that are missing or of another size, and with `rehash` those of another content."""
        return [file.path for file in self.files if not _intact(folder / file.path, file, rehash=rehash)]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def _intact(path: Path, file: StagedFile, *, rehash: bool) -> bool:
    if not path.is_file() or path.stat().st_size != file.size_bytes:
        return False
    return not rehash or sha256_of(path) == file.sha256


def sync(path: Path) -> None:
    """Wait until the file's content is on the disk: a name must not outlive its content."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    for block in _blocks(path):
        digest.update(block)
    return digest.hexdigest()


def git_blob_of(path: Path) -> str:
    """Git's name of the content: what the hub knows of files outside its large-file storage."""
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    for block in _blocks(path):
        digest.update(block)
    return digest.hexdigest()


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            yield block
