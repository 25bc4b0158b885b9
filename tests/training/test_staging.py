"""Staging against services on this machine: whole or not at all, resumed, verified, clear when it cannot."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from huggingface_hub import HfApi

from tests.training.local_hub import REPOSITORY, LocalHub
from training.staging.__main__ import Artifact, hub_token, main, parse_arguments
from training.staging.errors import StagingError
from training.staging.manifest import MANIFEST, Manifest
from training.staging.sources import BucketSource, HubSource, source_of
from training.staging.transfer import WORK, Patience, Tally, stage, wait_until_staged

FOLDER = "mixed_qwen3vl"
SHARDS = {f"{FOLDER}/model-0000{n}-of-00003.safetensors": 700_000 + n for n in (1, 2, 3)}
SMALL = {f"{FOLDER}/config.json": 1_500, f"{FOLDER}/tokenizer/vocab.json": 20_000, f"{FOLDER}/empty.txt": 0}
TOTAL_BYTES = sum(SHARDS.values()) + sum(SMALL.values())
IMPATIENT = Patience(attempts=3, first_wait_seconds=0)


def some_files() -> dict[str, bytes]:
    noise = random.Random(7)
    return {path: noise.randbytes(size) for path, size in (SHARDS | SMALL).items()}


@pytest.fixture
def hub() -> Iterator[LocalHub]:
    with LocalHub(files=some_files(), large=frozenset(SHARDS)).running() as hub:
        yield hub


@pytest.fixture
def fetch(hub: LocalHub, tmp_path: Path) -> Callable[..., Manifest]:
    """Stages the hub's folder into `tmp_path/model`."""

    def fetch(*, revision: str = "main", token: str | None = None, **options: object) -> Manifest:
        source = HubSource(
            requested=f"hf://{REPOSITORY}@{revision}/{FOLDER}",
            api=HfApi(endpoint=hub.address, token=token or False),
            kind="model",
            repository=REPOSITORY,
            revision=revision,
            folder=FOLDER,
        )
        options = {"patience": IMPATIENT} | options
        return stage(source, tmp_path / "model", **options)  # type: ignore[arg-type]

    return fetch


def named_files(folder: Path) -> dict[str, bytes]:
    """Everything that has its final name."""
    return {
        f"{FOLDER}/{path.relative_to(folder)}": path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and WORK not in path.parts and path.name != MANIFEST
    }


def test_folder_arrives_whole_with_its_manifest(
    hub: LocalHub, fetch: Callable[..., Manifest], tmp_path: Path
) -> None:
    tally = Tally()
    manifest = fetch(tally=tally)
    assert named_files(tmp_path / "model") == hub.files
    assert manifest.size_bytes == tally.fetched_bytes == tally.present_bytes == TOTAL_BYTES
    assert manifest.origin == f"hf://models/{REPOSITORY}@{hub.commit}/{FOLDER}"
    assert Manifest.of(tmp_path / "model") == manifest
    assert not (tmp_path / "model" / WORK / "parts").exists()


def test_complete_folder_asks_nothing_of_the_network(hub: LocalHub, fetch: Callable[..., Manifest]) -> None:
    first = fetch()
    hub.fail_with = [500] * 100
    assert fetch() == first
    assert fetch(rehash=True) == first
    assert len(hub.fail_with) == 100


def test_cut_connection_is_resumed_where_it_ended(
    hub: LocalHub, fetch: Callable[..., Manifest], tmp_path: Path
) -> None:
    shard = next(iter(SHARDS))
    hub.cut_after = {shard: 300_000}
    tally = Tally()
    fetch(tally=tally)
    assert [wanted for name, wanted in hub.requests if name == shard] == ["bytes=0-", "bytes=300000-"]
    assert named_files(tmp_path / "model") == hub.files
    assert tally.fetched_bytes == TOTAL_BYTES


def test_service_without_ranges_starts_the_file_again(
    hub: LocalHub, fetch: Callable[..., Manifest], tmp_path: Path
) -> None:
    hub.ignores_ranges = True
    hub.cut_after = {next(iter(SHARDS)): 300_000}
    tally = Tally()
    fetch(tally=tally)
    assert named_files(tmp_path / "model") == hub.files
    assert (tally.present_bytes, tally.fetched_bytes) == (TOTAL_BYTES, TOTAL_BYTES + 300_000)


def test_killed_half_way_the_next_run_fetches_at_most_one_file_again(hub: LocalHub, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "training.staging", "--root", str(tmp_path)]
    command.append(f"hf://{REPOSITORY}/{FOLDER}=model")
    environment = {**os.environ, "HF_ENDPOINT": hub.address}
    hub.bytes_per_second = 1_500_000
    with subprocess.Popen(command, env=environment) as first:
        while hub.served_bytes < TOTAL_BYTES / 2:
            assert first.poll() is None, "ended before it was interrupted"
            time.sleep(0.01)
        first.send_signal(signal.SIGKILL)
    half_way = named_files(tmp_path / "model")
    assert not (tmp_path / "model" / MANIFEST).exists()
    assert all(hub.files[path] == content for path, content in half_way.items())
    assert len(half_way) < len(hub.files)

    hub.bytes_per_second = None
    second = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    waiting = subprocess.run([*command, "--wait", "1"], env=environment, check=False)
    assert waiting.returncode == 0
    assert named_files(tmp_path / "model") == hub.files
    again = hub.served_bytes - TOTAL_BYTES
    print(f"interrupted at 50 %: {again:,} of {TOTAL_BYTES:,} bytes were served twice")
    assert again <= max(SHARDS.values())
    assert "bytes fetched now" in second.stdout


def test_damage_on_the_way_is_noticed_and_fetched_again(
    hub: LocalHub, fetch: Callable[..., Manifest], tmp_path: Path
) -> None:
    shard, config = next(iter(SHARDS)), next(iter(SMALL))
    hub.corrupt.update([shard, config])
    tally = Tally()
    fetch(tally=tally)
    assert named_files(tmp_path / "model") == hub.files
    assert tally.fetched_bytes == TOTAL_BYTES + SHARDS[shard] + SMALL[config]


def test_damaged_source_is_refused_and_its_file_gets_no_name(
    hub: LocalHub, fetch: Callable[..., Manifest], tmp_path: Path
) -> None:
    shard = list(SHARDS)[1]
    hub.corrupt[shard] = 2
    with pytest.raises(StagingError, match=r"model-00002.* arrived twice with another content"):
        fetch()
    assert shard not in named_files(tmp_path / "model")
    assert not (tmp_path / "model" / MANIFEST).exists()
    fetch()
    assert named_files(tmp_path / "model") == hub.files


def test_file_that_lost_bytes_on_the_disk_is_fetched_again(
    hub: LocalHub, fetch: Callable[..., Manifest], tmp_path: Path
) -> None:
    fetch()
    shard = tmp_path / "model" / next(iter(SHARDS)).removeprefix(f"{FOLDER}/")
    with shard.open("r+b") as stream:
        stream.truncate(1000)
    tally = Tally()
    fetch(tally=tally)
    assert named_files(tmp_path / "model") == hub.files
    assert tally.fetched_bytes == next(iter(SHARDS.values()))


def test_rehash_finds_a_changed_byte_that_sizes_do_not_show(
    hub: LocalHub, fetch: Callable[..., Manifest], tmp_path: Path
) -> None:
    fetch()
    config = tmp_path / "model" / "config.json"
    config.write_bytes(bytes(len(config.read_bytes())))
    fetch()
    assert named_files(tmp_path / "model") != hub.files
    fetch(rehash=True)
    assert named_files(tmp_path / "model") == hub.files


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], check=True)
    yield disk
    subprocess.run(["/bin/umount", disk], check=True)


def test_disk_that_is_too_small_is_refused_before_a_byte_is_fetched(
    hub: LocalHub, fetch: Callable[..., Manifest], tmp_path: Path, small_disk: Path
) -> None:
    (tmp_path / "model").symlink_to(small_disk)
    (small_disk / "old-run").write_bytes(bytes(3_000_000))
    with pytest.raises(StagingError, match=r"needs 2,121,506 more bytes.*free.*nothing was fetched"):
        fetch()
    assert hub.requests == []


def test_disk_that_fills_up_meanwhile_keeps_the_part_and_goes_on_later(
    hub: LocalHub, fetch: Callable[..., Manifest], tmp_path: Path, small_disk: Path
) -> None:
    (tmp_path / "model").symlink_to(small_disk)
    rival = small_disk / "rival"

    def another_run_writes(tally: Tally) -> None:
        if tally.fetched_bytes > TOTAL_BYTES / 2 and not rival.exists():
            rival.write_bytes(bytes(2_500_000))

    first = Tally(on_change=another_run_writes)
    with pytest.raises(StagingError, match=r"no space left at [\d,]+ bytes of .*\.part: .*the part is kept"):
        fetch(tally=first)
    half_way = named_files(small_disk)
    del half_way[f"{FOLDER}/rival"]
    assert all(hub.files[path] == content for path, content in half_way.items())

    rival.unlink()
    fetch()
    assert named_files(small_disk) == hub.files
    assert hub.served_bytes - TOTAL_BYTES < max(SHARDS.values())


def test_hub_that_cannot_be_reached_is_named_with_what_to_do(
    hub: LocalHub, fetch: Callable[..., Manifest]
) -> None:
    hub.address = "http://127.0.0.1:9"  # the discard port: nobody listens
    waits: list[float] = []
    with pytest.raises(StagingError, match=r"gave up after 3 attempts.*127\.0\.0\.1:9.*stages from S3"):
        fetch(patience=Patience(attempts=3, first_wait_seconds=2.0, sleep=waits.append))
    assert waits == [2.0, 4.0]


def test_overloaded_hub_is_asked_again(hub: LocalHub, fetch: Callable[..., Manifest], tmp_path: Path) -> None:
    hub.fail_with = [503, 504]
    fetch()
    assert named_files(tmp_path / "model") == hub.files


def test_private_repository_wants_a_token_and_the_token_goes_to_the_hub_only(
    hub: LocalHub, fetch: Callable[..., Manifest]
) -> None:
    hub.token = "hf_secret"
    with pytest.raises(StagingError, match=r"refuses .*\(401\).*hub_token_secret_arn"):
        fetch()
    hub.authorized.clear()
    fetch(token="hf_secret")
    for path, authorization in hub.authorized:
        assert authorization == (None if path.startswith("/cdn/") else "Bearer hf_secret"), path


def test_wrong_folder_is_told_apart_from_a_broken_connection(
    hub: LocalHub, fetch: Callable[..., Manifest]
) -> None:
    hub.fail_with = [404]
    with pytest.raises(StagingError, match=r"404 .*check repository, revision and folder"):
        fetch()


def test_branch_is_held_at_the_commit_that_was_staged_until_another_is_asked_for(
    hub: LocalHub, fetch: Callable[..., Manifest], tmp_path: Path
) -> None:
    first = fetch()
    hub.commit = "d" * 40
    removed = hub.files.pop(f"{FOLDER}/tokenizer/vocab.json")
    hub.files[f"{FOLDER}/config.json"] = b"newer"
    assert removed
    assert fetch() == first
    second = fetch(revision="d" * 40)
    assert f"@{'d' * 40}/" in second.origin
    assert named_files(tmp_path / "model") == hub.files


def test_two_runs_on_one_folder_take_turns(
    hub: LocalHub, fetch: Callable[..., Manifest], tmp_path: Path
) -> None:
    hub.bytes_per_second = 4_000_000
    runs = [threading.Thread(target=fetch) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert named_files(tmp_path / "model") == hub.files
    assert hub.served_bytes == TOTAL_BYTES


def test_waiting_ends_when_another_run_completed_the_folder(
    hub: LocalHub, fetch: Callable[..., Manifest], tmp_path: Path
) -> None:
    requested = f"hf://{REPOSITORY}@main/{FOLDER}"
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            fetch()

    staged = wait_until_staged(requested, tmp_path / "model", timeout_seconds=60, sleep=nap)
    assert (len(naps), staged.size_bytes) == (3, TOTAL_BYTES)
    with pytest.raises(StagingError, match=r"was not completed from hf://other/source within 60 s"):
        wait_until_staged("hf://other/source", tmp_path / "model", timeout_seconds=60, sleep=naps.append)


def test_command_waits_in_vain_with_the_status_of_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--root", str(tmp_path), "--wait", "0", "hf://a/b=models/x"]) == 1
    assert "was not completed from hf://a/b" in capsys.readouterr().err


def test_path_outside_the_folder_is_refused(hub: LocalHub, fetch: Callable[..., Manifest]) -> None:
    hub.files[f"{FOLDER}/../../etc/passwd"] = b"root"
    with pytest.raises(StagingError, match="outside its own folder; nothing was fetched"):
        fetch()
    assert hub.requests == []


def test_unreadable_manifest_is_no_proof(fetch: Callable[..., Manifest], tmp_path: Path) -> None:
    fetch()
    (tmp_path / "model" / MANIFEST).write_text('{"requested": "hf://"}')
    with pytest.raises(StagingError, match=r"is not a staging manifest .*; delete it and stage again"):
        fetch()


@pytest.fixture
def bucket(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> LocalHub:
    """The hub's services as this process's AWS."""
    for name, value in {
        "AWS_ENDPOINT_URL": hub.address,
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "us-east-2",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    return hub


def test_closed_cluster_stages_from_a_copy_in_s3(
    bucket: LocalHub, fetch: Callable[..., Manifest], tmp_path: Path
) -> None:
    original = fetch()
    copied = [path for path in (tmp_path / "model").rglob("*") if path.is_file() and WORK not in path.parts]
    for path in copied:
        bucket.files[f"models/sft/{path.relative_to(tmp_path / 'model')}"] = path.read_bytes()
    shard = f"models/sft/{next(iter(SHARDS)).removeprefix(f'{FOLDER}/')}"
    bucket.cut_after = {shard: 250_000}
    bucket.requests.clear()

    source = source_of("s3://bucket/models/sft")
    assert isinstance(source, BucketSource)
    copy = stage(source, tmp_path / "copy", patience=IMPATIENT)
    assert named_files(tmp_path / "copy") == named_files(tmp_path / "model")
    assert copy.files == original.files
    assert copy.origin == original.origin
    assert [wanted for name, wanted in bucket.requests if name == shard] == ["bytes=0-", "bytes=250000-"]


def test_prefix_without_a_manifest_is_explained(bucket: LocalHub, tmp_path: Path) -> None:
    with pytest.raises(
        StagingError, match=r"S3 answered \w+ for s3://bucket/nothing.*must hold a staged folder"
    ):
        stage(source_of("s3://bucket/nothing"), tmp_path / "copy", patience=IMPATIENT)


def test_token_comes_from_secrets_manager_when_only_its_name_is_given(
    bucket: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    assert hub_token() is None
    bucket.secret = "hf_from_secrets_manager\n"
    monkeypatch.setenv(
        "HF_TOKEN_SECRET_ARN", "arn:aws:secretsmanager:us-east-2:111122223333:secret:hub-AbCdEf"
    )
    assert hub_token() == "hf_from_secrets_manager"
    monkeypatch.setenv("HF_TOKEN", "hf_given")
    assert hub_token() == "hf_given"


@pytest.mark.parametrize(
    ("address", "kind", "repository", "revision", "folder"),
    [
        ("hf://VisGym/visgym_model/mixed_qwen3vl", "model", "VisGym/visgym_model", "main", "mixed_qwen3vl"),
        ("hf://VisGym/visgym_model@v1.0/a/b/", "model", "VisGym/visgym_model", "v1.0", "a/b"),
        ("hf://datasets/VisGym/inference-dataset", "dataset", "VisGym/inference-dataset", "main", ""),
    ],
)
def test_hub_addresses_are_read_as_the_hub_writes_them(
    address: str, kind: str, repository: str, revision: str, folder: str
) -> None:
    source = source_of(address)
    assert isinstance(source, HubSource)
    found = (source.kind, source.repository, source.revision, source.folder)
    assert found == (kind, repository, revision, folder)


@pytest.mark.parametrize(
    "address", ["", "VisGym/visgym_model", "hf://visgym_model", "s3://bucket", "https://huggingface.co/a/b"]
)
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(StagingError, match="is neither hf://"):
        source_of(address)


@pytest.mark.parametrize(
    "text", ["hf://a/b", "=models/x", "hf://a/b=", "hf://a/b=/models", "hf://a/b=../models"]
)
def test_artifact_without_a_folder_under_the_root_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["--root", "/shared", text])
    assert "is not SOURCE=FOLDER" in capsys.readouterr().err


def test_artifact_is_split_at_its_last_equals_sign() -> None:
    assert Artifact.parse("s3://bucket/a=b/c=models/x") == Artifact("s3://bucket/a=b/c", "models/x")
