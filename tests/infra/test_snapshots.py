"""The walkthrough's templates, whole: a review sees every change of the infrastructure, and nothing else.

Hashes of uploaded code are replaced, so that a change of training code or of a library's functions does not
show; Kubernetes manifests are left out, because tests/k8s has them as readable YAML. Logical ids stay: a
changed one means replacement. Update with `pytest tests/infra/test_snapshots.py --snapshot-update`.
"""

import json
import re
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from tests.infra.conftest import PARTS, Template, resources_of

_ASSET_HASH = re.compile(r"\b[0-9a-f]{64}\b")


@pytest.fixture
def image_tag(walkthrough: dict[str, Template]) -> str:
    """The training image's tag, a hash of the training code."""
    tags = [
        resource["Properties"]["ImageTag"]
        for resource in resources_of(walkthrough["registry"], "AWS::CloudFormation::CustomResource").values()
    ]
    (tag,) = tags
    return str(tag)


def normalized(template: Template, *, image_tag: str) -> Any:
    text = json.dumps(template, sort_keys=True).replace(image_tag, "<image tag>")
    content = json.loads(_ASSET_HASH.sub("<hash>", text))
    for manifest in resources_of(content, "Custom::AWSCDK-EKS-KubernetesResource").values():
        manifest["Properties"]["Manifest"] = "<manifest>"
    return content


@pytest.mark.parametrize("part", PARTS)
def test_template_changes_only_on_purpose(
    walkthrough: dict[str, Template], part: str, image_tag: str, snapshot: SnapshotAssertion
) -> None:
    content = normalized(walkthrough[part], image_tag=image_tag)
    assert content == snapshot.use_extension(JSONSnapshotExtension)


def test_every_stack_has_a_snapshot(walkthrough: dict[str, Template]) -> None:
    assert set(walkthrough) == set(PARTS)


def test_a_code_change_does_not_show() -> None:
    one, other = (
        {"Resources": {}, "Key": f"{digit * 64}.zip", "Uri": f"repository:{tag}", "Fixed": "ab12"}
        for digit, tag in (("a", "0123456789abcdef0123"), ("b", "fedcba9876543210fedc"))
    )
    assert normalized(one, image_tag="0123456789abcdef0123") == normalized(
        other, image_tag="fedcba9876543210fedc"
    )
