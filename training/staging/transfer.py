"""Fetching a folder: resumed where it stopped, verified, and named only when it is whole.

A file grows as `<folder>/.staging/<path>.part` and gets its name by a rename, after its checksum was computed
from what lies on the disk. An interrupted run costs nothing but the bytes in flight: the next one, in this
process or another, appends to the part. A part that turns out wrong is thrown away as a whole: that is the
most that is ever fetched twice.
"""

import errno
import fcntl
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from training.staging.errors import Interrupted, StagingError
from training.staging.manifest import Manifest, StagedFile, sha256_of, sync
from training.staging.sources import RemoteFile, Source

WORK = ".staging"
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How often a broken connection is tried again in a row, and how long each try waits (doubling)."""

    attempts: int = 6
    first_wait_seconds: float = 2.0
    sleep: Callable[[float], None] = time.sleep

    def wait(self, failures: int) -> None:
        self.sleep(self.first_wait_seconds * 2 ** (failures - 1))


@dataclass(slots=True, kw_only=True)
class Tally:
    """Bytes of one staging. `on_change` is called whenever `present_bytes` grew or shrank."""

    total_bytes: int = 0
    present_bytes: int = 0
    fetched_bytes: int = 0
    on_change: Callable[["Tally"], None] | None = None

    def add(self, *, present: int = 0, fetched: int = 0) -> None:
        self.present_bytes += present
        self.fetched_bytes += fetched
        if self.on_change:
            self.on_change(self)


def stage(
    source: Source,
    folder: Path,
    *,
    rehash: bool = False,
    patience: Patience | None = None,
    tally: Tally | None = None,
) -> Manifest:
    """Make `folder` hold the source's files and their manifest. Does nothing when it already does.

    A complete folder asks nothing of the network; `rehash` also reads its content. Two runs on one folder
    take turns. Raises StagingError; what was fetched stays for the next run.
    """
    patience, tally = patience or Patience(), tally or Tally()
    with _turn(folder):
        known = Manifest.of(folder)
        if known and known.requested == source.requested and not known.damage(folder, rehash=rehash):
            return known
        origin, files = _persistent(source.files, patience)
        staged = _fetch_all(source, files, folder, patience=patience, tally=tally)
        manifest = Manifest(requested=source.requested, origin=origin, files=staged)
        _remove_what_is_no_longer_there(folder, known, manifest)
        manifest.write(folder)
        return manifest


def wait_until_staged(
    requested: str,
    folder: Path,
    *,
    timeout_seconds: float,
    poll_seconds: float = 5.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Manifest:
    """Wait for another run to complete the folder. Raises StagingError when it does not in time."""
    for _ in range(max(1, round(timeout_seconds / poll_seconds))):
        known = Manifest.of(folder)
        if known and known.requested == requested and not known.damage(folder, rehash=False):
            return known
        sleep(min(poll_seconds, timeout_seconds))
    raise StagingError(
        f"{folder} was not completed from {requested} within {timeout_seconds:,.0f} s: read the log of "
        "the job that stages it (kubectl logs --selector app.kubernetes.io/component=staging)"
    )


def _fetch_all(
    source: Source, files: tuple[RemoteFile, ...], folder: Path, *, patience: Patience, tally: Tally
) -> tuple[StagedFile, ...]:
    tally.total_bytes = sum(file.size_bytes for file in files)
    missing = [file for file in files if not _is_there(folder, file)]
    tally.add(present=tally.total_bytes - sum(file.size_bytes for file in missing))
    _check_space(folder, missing)
    for file in missing:
        _fetch(source, file, folder, patience=patience, tally=tally)
    return tuple(
        StagedFile(path=file.path, size_bytes=file.size_bytes, sha256=sha256_of(folder / file.path))
        for file in files
    )


def _is_there(folder: Path, file: RemoteFile) -> bool:
    path = folder / file.path
    return (
        path.is_file() and path.stat().st_size == file.size_bytes and file.checksum_of(path) == file.checksum
    )


def _check_space(folder: Path, missing: list[RemoteFile]) -> None:
    needed = sum(file.size_bytes - min(_size(_part(folder, file)), file.size_bytes) for file in missing)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StagingError(
            f"{folder} needs {needed:,} more bytes, its file system has {free:,} free: delete old runs or "
            "give the file system more capacity (storage.capacity_gib); nothing was fetched"
        )


def _fetch(source: Source, file: RemoteFile, folder: Path, *, patience: Patience, tally: Tally) -> None:
    """One file, until it is whole or patience ends."""
    part = _part(folder, file)
    part.parent.mkdir(parents=True, exist_ok=True)
    tally.add(present=_size(part))
    for _ in range(2):
        _persistent(lambda: _append(source, file, part, tally), patience, progress=lambda: _size(part))
        if file.checksum_of(part) == file.checksum:
            _name(part, folder / file.path)
            return
        tally.add(present=-_size(part))
        part.unlink()
    raise StagingError(
        f"{file.path} arrived twice with another content than {source.requested} lists (checksum "
        f"{file.checksum}): the source is damaged or changes on the way; nothing of this file was kept"
    )


def _append(source: Source, file: RemoteFile, part: Path, tally: Tally) -> None:
    """Bring the part to the file's size. Raises Interrupted when the bytes end early."""
    if _size(part) > file.size_bytes:
        tally.add(present=-_size(part))
        part.unlink()
    missing = file.size_bytes - _size(part)
    if missing:
        with source.open(file, offset=_size(part)) as stream, _telling_of_full_disks(part):
            _write(stream.chunks, part, offset=stream.offset, tally=tally)
    part.touch()
    if _size(part) < file.size_bytes:
        raise Interrupted(f"{file.path} ended after {_size(part):,} of {file.size_bytes:,} bytes")


def _write(chunks: Iterator[bytes], part: Path, *, offset: int, tally: Tally) -> None:
    with part.open("ab") as stream:
        tally.add(present=offset - stream.tell())
        stream.truncate(offset)
        for chunk in chunks:
            stream.write(chunk)
            stream.flush()
            tally.add(present=len(chunk), fetched=len(chunk))


def _name(part: Path, path: Path) -> None:
    sync(part)
    path.parent.mkdir(parents=True, exist_ok=True)
    part.replace(path)


def _persistent[Result](
    action: Callable[[], Result], patience: Patience, *, progress: Callable[[], int] = lambda: 0
) -> Result:
    """Repeat an action that was interrupted. Attempts are counted anew whenever bytes arrived in between."""
    failures, reached = 0, progress()
    while True:
        try:
            return action()
        except Interrupted as error:
            failures = 1 if progress() > reached else failures + 1
            reached = progress()
            if failures >= patience.attempts:
                raise StagingError(
                    f"gave up after {failures} attempts without a byte: {error}. Can the pod reach it (DNS, "
                    "NAT gateway, network policy)? A closed cluster stages from S3: staging.artifacts"
                ) from error
            patience.wait(failures)


def _remove_what_is_no_longer_there(folder: Path, known: Manifest | None, manifest: Manifest) -> None:
    """Files of an earlier revision that the new one does not have would be loaded along with it."""
    kept = {file.path for file in manifest.files}
    for file in known.files if known else ():
        if file.path not in kept:
            (folder / file.path).unlink(missing_ok=True)
    shutil.rmtree(folder / WORK / "parts", ignore_errors=True)


def _part(folder: Path, file: RemoteFile) -> Path:
    return folder / WORK / "parts" / f"{file.path}.part"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """One staging of a folder at a time, also from different nodes (the volume is mounted with `flock`)."""
    work = folder / WORK
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _telling_of_full_disks(part: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        raise StagingError(
            f"no space left at {_size(part):,} bytes of {part}: delete old runs or give the file system more "
            "capacity (storage.capacity_gib); the part is kept and the next run goes on from there"
        ) from error
