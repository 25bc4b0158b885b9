"""`python -m training.staging`: see the package's docstring. Exit status 0 when every folder is complete."""

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import botocore.session
from tqdm import tqdm

from training.staging.errors import StagingError
from training.staging.sources import source_of
from training.staging.transfer import Tally, stage, wait_until_staged

TOKEN_SECRET = "HF_TOKEN_SECRET_ARN"  # noqa: S105 (a name)
"""Environment: the Secrets Manager secret whose text is the hub's token; HF_TOKEN goes first."""
PROGRESS_SECONDS = 10
"""Between two lines of progress: this is read in a pod's log."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One source and the folder under the root that it goes to."""

    source: str
    folder: str

    @classmethod
    def parse(cls, text: str) -> "Artifact":
        source, separator, folder = text.rpartition("=")
        path = PurePosixPath(folder)
        if not separator or not source or path.is_absolute() or ".." in path.parts or not path.parts:
            raise argparse.ArgumentTypeError(f"{text!r} is not SOURCE=FOLDER with a folder under the root")
        return cls(source, folder)


def hub_token() -> str | None:
    """The token given to this process, or the one in Secrets Manager that it is pointed to."""
    if token := os.environ.get("HF_TOKEN"):
        return token
    secret = os.environ.get(TOKEN_SECRET)
    if not secret:
        return None
    client = botocore.session.get_session().create_client("secretsmanager", region_name=secret.split(":")[3])
    return str(client.get_secret_value(SecretId=secret)["SecretString"]).strip()


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m training.staging",
        description="Put models and data sets on the shared file system, once and whole.",
        epilog="Example: python -m training.staging --root /shared "
        "hf://VisGym/visgym_model/mixed_qwen3vl=models/visgym/mixed_qwen3vl",
    )
    parser.add_argument("artifacts", nargs="+", type=Artifact.parse, metavar="SOURCE=FOLDER")
    parser.add_argument("--root", type=Path, required=True, help="where the folders lie: the shared mount")
    parser.add_argument(
        "--rehash", action="store_true", help="read complete folders too and compare checksums"
    )
    parser.add_argument(
        "--wait",
        type=float,
        metavar="MINUTES",
        help="fetch nothing: wait for another run to complete the folders",
    )
    return parser.parse_args(arguments)


def stage_one(artifact: Artifact, *, root: Path, rehash: bool, token: str | None) -> None:
    """Stage with a progress bar, and say in one line what came of it."""
    folder = root / artifact.folder
    with tqdm(unit="B", unit_scale=True, mininterval=PROGRESS_SECONDS, desc=artifact.folder) as bar:

        def show(tally: Tally) -> None:
            bar.total = tally.total_bytes
            bar.update(tally.present_bytes - bar.n)

        tally = Tally(on_change=show)
        manifest = stage(source_of(artifact.source, token=token), folder, rehash=rehash, tally=tally)
    print(
        f"{folder}: {len(manifest.files)} files, {manifest.size_bytes:,} bytes from {manifest.origin}; "
        f"{tally.fetched_bytes:,} bytes fetched now",
        flush=True,
    )


def wait_for_one(artifact: Artifact, *, root: Path, timeout_seconds: float) -> None:
    folder = root / artifact.folder
    print(f"{folder}: waiting until it is staged from {artifact.source}", flush=True)
    wait_until_staged(artifact.source, folder, timeout_seconds=timeout_seconds)
    print(f"{folder}: complete", flush=True)


def main(arguments: list[str]) -> int:
    options = parse_arguments(arguments)
    try:
        for artifact in options.artifacts:
            if options.wait is None:
                stage_one(artifact, root=options.root, rehash=options.rehash, token=hub_token())
            else:
                wait_for_one(artifact, root=options.root, timeout_seconds=options.wait * 60)
    except StagingError as error:
        print(f"staging failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
