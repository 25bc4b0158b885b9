"""Three changes of the walkthrough, synthesized before and after, and the comments that docs/review.md shows.

`python -m tests.ops.review_samples` writes the comments into the document; a test compares them.
"""

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

import app as application
from k8s.render import manifests, to_yaml
from ops.reviewing.markdown import markdown
from ops.reviewing.review import compare
from stacks.network import NetworkStack
from stacks.settings import CDK_JSON, Settings, parse_settings
from stacks.workload import ray_workload

DOCUMENT = Path(__file__).parents[2] / "docs" / "review.md"
BLOCK = re.compile(r"(?<=^<!-- sample: )([a-z ]+) -->\n.*?(?=^<!-- end -->$)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One change: of settings, or of the code that makes the stacks."""

    settings: Mapping[str, Any] | None = None
    code: Callable[[cdk.App], object] | None = None


def _one_more_worker() -> Mapping[str, Any]:
    settings = environment()
    settings["instance_groups"][0]["instance_count"] = 4
    return settings


def _another_zone() -> Mapping[str, Any]:
    settings = environment()
    settings["network"]["hyperpod_zone_id"] = "use2-az2"
    return settings


def _open_ssh(app: cdk.App) -> None:
    stack = app.node.find_child("maze-grpo-network")
    assert isinstance(stack, NetworkStack)
    office = ec2.Peer.ipv4("203.0.113.0/24")
    stack.security_group.add_ingress_rule(office, ec2.Port.tcp(22), "SSH from the office")


def environment() -> dict[str, Any]:
    """The walkthrough's settings as cdk.json has them."""
    settings: dict[str, Any] = json.loads(CDK_JSON.read_text())["context"]["environments"]["walkthrough"]
    return settings


def samples() -> dict[str, Sample]:
    return {
        "instance count": Sample(settings=_one_more_worker()),
        "security group rule": Sample(code=_open_ssh),
        "file system": Sample(settings=_another_zone()),
    }


def synthesize(folder: Path, sample: Sample) -> Path:
    """What `make synth` would write of the changed version: templates to cdk.out, manifests to dist."""
    # As the CLI does: names of constructs, so that a comment has no hashes.
    context = {**json.loads(CDK_JSON.read_text())["context"], "aws:cdk:enable-path-metadata": True}
    app = cdk.App(context=context, outdir=str(folder / "cdk.out"))
    settings = parse_settings(sample.settings or environment())
    application.compose(app, settings)
    if sample.code:
        sample.code(app)
    app.synth()
    _render(settings, folder / "dist")
    return folder


def _render(settings: Settings, folder: Path) -> None:
    folder.mkdir()
    workload = ray_workload(
        settings,
        image="registry.example/training:example",
        file_system_id="fs-0123456789abcdef0",
        dns_name="fs-0123456789abcdef0.example",
        mount_name="examplev",
    )
    for name, objects in manifests(workload).items():
        (folder / f"{name}.k8s.yaml").write_text(to_yaml(objects), encoding="utf-8")


def comment(base: Path, head: Path) -> str:
    pair = (base / "dist", head / "dist")
    return markdown(compare(base / "cdk.out", head / "cdk.out", manifests=pair))


def rewrite(text: str, comments: Mapping[str, str]) -> str:
    """The document with the present comment of each sample, quoted."""

    def block(match: re.Match[str]) -> str:
        quoted = "\n".join(f"> {line}".rstrip() for line in comments[match[1]].splitlines())
        return f"{match[1]} -->\n\n{quoted}\n\n"

    return BLOCK.sub(block, text)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = synthesize(Path(folder) / "base", Sample())
        heads = {name: synthesize(Path(folder) / name, sample) for name, sample in samples().items()}
        comments = {name: comment(base, head) for name, head in heads.items()}
    DOCUMENT.write_text(rewrite(DOCUMENT.read_text(encoding="utf-8"), comments), encoding="utf-8")


if __name__ == "__main__":
    main()
