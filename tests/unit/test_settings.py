"""Settings: what is accepted, and one table of what is refused and how."""

import json
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from stacks.faults import SettingsError
from stacks.settings import CDK_JSON, Section, Settings, load_settings, parse_settings

ENVIRONMENTS: dict[str, Any] = json.loads(CDK_JSON.read_text())["context"]["environments"]
ABSENT = object()
ROLE = "arn:aws:iam::111122223333:role/platform-admin"
PLAN = "arn:aws:sagemaker:us-east-2:111122223333:training-plan/gpus"


def walkthrough(*changes: tuple[str, Any]) -> dict[str, Any]:
    """The walkthrough's environment, changed; a path has dots, list items are numbers."""
    environment = deepcopy(ENVIRONMENTS["walkthrough"])
    for path, value in changes:
        *parents, last = path.split(".")
        section: Any = environment
        for key in parents:
            section = section[int(key)] if isinstance(section, list) else section.setdefault(key, {})
        if value is ABSENT:
            del section[last]
        elif isinstance(section, list):
            section[int(last)] = value
        else:
            section[last] = value
    return environment


GPU, HEAD = "instance_groups.0", "instance_groups.1"
ONE = "instance_groups[0]"

# What is changed, the field that the message names, a part of the rule or remedy that it states.
STAGED = "staging.artifacts[0]"
MODEL = f"hf://VisGym/visgym_model@{'ab' * 20}"
REFUSED: list[tuple[list[tuple[str, Any]], str, str]] = [
    # shape
    ([("nmae", "x")], "nmae", "Did you mean name?"),
    ([("colour", "red")], "colour", "is not a setting. Remove it; known here: access"),
    (
        [("network.hyperpod_zone_ids", ["use2-az1", "use2-az2"])],
        "network.hyperpod_zone_ids",
        "hyperpod_zone_id?",
    ),
    ([("storage.zone_id", "use2-az2")], "storage.zone_id", "is not a setting"),
    ([("name", ABSENT)], "name", "is required"),
    ([("name", "Maze")], "name", "should match pattern"),
    ([("name", "maze_grpo")], "name", "should match pattern"),
    ([("name", "m" * 25)], "name", "at most 24"),
    ([("region", 7)], "region", "valid string"),
    ([("instance_groups", [])], "instance_groups", "at least 1 item"),
    ([("instance_groups", {})], "instance_groups", "valid array"),
    ([("removal", "delete")], "removal", "'destroy' or 'retain'"),
    ([("log_retention_days", 31)], "log_retention_days", "30, 60"),
    ([("log_retention_days", "30")], "log_retention_days", "valid integer"),
    ([("node_timeout_minutes", 5)], "node_timeout_minutes", "greater than or equal to 15"),
    ([("image.base_image", "skyrl:latest")], "image.base_image", "by digest"),
    # access
    ([("access.admin_principal_arns", ABSENT)], "access.admin_principal_arns", "is required"),
    ([("access.admin_principal_arns", [])], "access.admin_principal_arns", "at least 1 item"),
    ([("access.admin_principal_arns", ["platform-admin"])], "access.admin_principal_arns[0]", "pattern"),
    ([("access.admin_principal_arns", ["arn:aws:s3:::bucket"])], "access.admin_principal_arns[0]", "pattern"),
    (
        [("access.admin_principal_arns", ["arn:aws:sts::111122223333:assumed-role/admin/session"])],
        "access.admin_principal_arns[0]",
        "pattern",
    ),
    ([("access.researcher_principal_arns", [ROLE])], "access", "listed twice"),
    # region and zones
    ([("region", "eu-west-1")], "region", "us-east-2"),
    ([("region", "us-west-2")], "network.control_plane_zone_ids[0]", "begin with usw2-az"),
    ([("network.control_plane_zone_ids", ["use2-az1"])], "network.control_plane_zone_ids", "at least 2"),
    (
        [("network.control_plane_zone_ids", ["us-east-2a", "use2-az1"])],
        "network.control_plane_zone_ids[0]",
        "zone ids",
    ),
    (
        [("network.control_plane_zone_ids", ["use2-az1", "use2-az1"])],
        "network.control_plane_zone_ids",
        "twice",
    ),
    (
        [
            ("region", "us-east-1"),
            ("network.control_plane_zone_ids", ["use1-az1", "use1-az3"]),
            ("network.hyperpod_zone_id", "use1-az1"),
        ],
        "network.control_plane_zone_ids[1]",
        "EKS does not place a control plane",
    ),
    ([("network.hyperpod_zone_id", "use2-az3")], "network.hyperpod_zone_id", "Use one of use2-az1, use2-az2"),
    ([("network.hyperpod_zone_id", ["use2-az1", "use2-az2"])], "network.hyperpod_zone_id", "valid string"),
    # addresses
    ([("network.vpc_cidr", "10.0.0.1/16")], "network.vpc_cidr", "has host bits set"),
    ([("network.vpc_cidr", "ten")], "network.vpc_cidr", 'as "10.0.0.0/16"'),
    ([("network.vpc_cidr", "10.0.0.0/8")], "network.vpc_cidr", "between /16 and /22"),
    ([("network.vpc_cidr", "10.0.0.0/25")], "network.vpc_cidr", "between /16 and /22"),
    ([("network.vpc_cidr", "8.8.0.0/16")], "network.vpc_cidr", "is not a private network"),
    ([("network.vpc_cidr", "172.20.0.0/16")], "network.vpc_cidr", "overlaps 172.20.0.0/16"),
    (
        [("network.vpc_cidr", "10.0.0.0/22")],
        "network.vpc_cidr",
        "need 1005 addresses, its upper half",
    ),
    ([("network.vpc_cidr", "10.0.0.0/23")], "network.vpc_cidr", "Use a prefix length of 16 to 22"),
    ([(f"{GPU}.instance_count", 600)], "network.vpc_cidr", "need 153837 addresses"),
    ([("network.growth_factor", 0)], "network.growth_factor", "greater than or equal to 1"),
    # Kubernetes
    ([("kubernetes.version", "1.36")], "kubernetes.version", "Use one of: 1.33, 1.34"),
    ([("kubernetes.version", 1.34)], "kubernetes.version", "valid string"),
    ([("kubernetes.endpoint_access", "public")], "kubernetes.endpoint_access", "public-and-private"),
    ([("kubernetes.public_access_cidrs", [])], "kubernetes.public_access_cidrs", "is required"),
    (
        [("kubernetes.public_access_cidrs", ["0.0.0.0/0"])],
        "kubernetes.public_access_cidrs[0]",
        "/8 or smaller",
    ),
    (
        [("kubernetes.public_access_cidrs", ["10.1.0.0/16"])],
        "kubernetes.public_access_cidrs[0]",
        "public networks",
    ),
    (
        [("kubernetes.endpoint_access", "private")],
        "kubernetes.public_access_cidrs",
        "no meaning with a private",
    ),
    # instance groups
    ([(f"{GPU}.instance_count", -1)], f"{ONE}.instance_count", "greater than or equal to 0"),
    ([(f"{GPU}.instance_count", 2.5)], f"{ONE}.instance_count", "valid integer"),
    ([(f"{GPU}.instance_count", "3")], f"{ONE}.instance_count", "valid integer"),
    ([(f"{GPU}.instance_type", "ml.g7e.13xlarge")], f"{ONE}.instance_type", "instance_types.csv"),
    ([(f"{GPU}.instance_type", "g7e.12xlarge")], f"{ONE}.instance_type", "instance_types.csv"),
    ([(f"{GPU}.name", "gpu--workers")], f"{ONE}.name", "pattern"),
    ([(f"{GPU}.name", "cpu-head")], "instance_groups", "two groups have this name"),
    ([(f"{GPU}.threads_per_core", 4)], f"{ONE}.threads_per_core", "less than or equal to 2"),
    ([(f"{GPU}.ebs_volume_gib", 20)], f"{ONE}.ebs_volume_gib", "100 to 16384"),
    ([(f"{GPU}.capacity", "reserved")], f"{ONE}.capacity", "'on-demand' or 'spot'"),
    ([(f"{HEAD}.efa", True)], "instance_groups[1].efa", "ml.r5d.16xlarge has no EFA interface"),
    ([(f"{GPU}.instance_type", "ml.g7e.2xlarge"), (f"{GPU}.efa", True)], f"{ONE}.efa", "larger size"),
    ([(f"{HEAD}.deep_health_checks", True)], "instance_groups[1].deep_health_checks", "has none"),
    (
        [(f"{GPU}.deep_health_checks", True), (f"{GPU}.taints", [{"key": "team"}])],
        f"{ONE}.taints",
        "refuses custom taints together with deep health checks",
    ),
    ([(f"{HEAD}.taints", [{"key": "nvidia.com/gpu"}])], "instance_groups[1].taints", "has no GPU"),
    ([(f"{GPU}.taints", [{"key": "team"}, {"key": "team"}])], f"{ONE}.taints", "given twice"),
    ([(f"{GPU}.taints", [{"key": "team", "effect": "Never"}])], f"{ONE}.taints[0].effect", "NoSchedule"),
    ([(f"{GPU}.taints", [{"key": "a b"}])], f"{ONE}.taints[0].key", "pattern"),
    ([(f"{GPU}.labels", {"sagemaker.amazonaws.com/x": "y"})], f"{ONE}.labels", "domain of your own"),
    ([(f"{GPU}.labels", {"team": "a b"})], f"{ONE}.labels.team", "pattern"),
    ([(f"{GPU}.training_plan_arn", ROLE)], f"{ONE}.training_plan_arn", "pattern"),
    (
        [(f"{GPU}.training_plan_arn", PLAN), (f"{GPU}.training_plan_instances", 2)],
        f"{ONE}.instance_count",
        "the training plan reserves 2",
    ),
    ([(f"{GPU}.training_plan_instances", 3)], f"{ONE}.training_plan_instances", "without training_plan_arn"),
    (
        [(f"{GPU}.training_plan_arn", PLAN.replace("us-east-2", "us-west-2"))],
        f"{ONE}.training_plan_arn",
        "not in us-east-2",
    ),
    ([(f"{GPU}.training_plan_arn", PLAN), (f"{GPU}.capacity", "spot")], f"{ONE}.capacity", "not spot"),
    (
        [
            (f"{GPU}.instance_type", "ml.g6e.xlarge"),
            (f"{GPU}.instance_count", 1),
            (f"{HEAD}.instance_type", "ml.m5.2xlarge"),
        ],
        "instance_groups",
        "2 nodes have addresses for 28 pods; system and Ray need about 36",
    ),
    # Ray's places
    ([("ray.worker_group", "gpus")], "ray.worker_group", "Use one of: gpu-workers, cpu-head"),
    ([("ray.head_group", "gpu-workers")], "ray.head_group", "leaves no room for the head"),
    ([("ray.active", "both")], "ray.active", 'Say "job"'),
    ([("ray.queue", "Queue_1")], "ray.queue", "Name the Kueue local queue"),
    (
        [("ray.dashboard", {"grafana_url": "grafana.example", "prometheus_url": "https://p.example"})],
        "ray.dashboard.grafana_url",
        "Give the https:// address",
    ),
    ([(f"{GPU}.instance_count", 0)], "ray.worker_group", "has no nodes"),
    ([(f"{HEAD}.instance_count", 0)], "ray.head_group", "has no nodes"),
    ([(f"{GPU}.instance_type", "ml.r5d.16xlarge")], "ray.worker_group", "has no GPU"),
    # storage and observability
    ([("storage.capacity_gib", 1300)], "storage.capacity_gib", "Use 2400"),
    ([("storage.capacity_gib", 0)], "storage.capacity_gib", "multiples of 2400"),
    ([("storage.throughput_mbps_per_tib", 99)], "storage.throughput_mbps_per_tib", "125, 250, 500, 1000"),
    ([("storage.backup_retention_days", 91)], "storage.backup_retention_days", "0 (no automatic backups)"),
    ([("storage.removal", "keep")], "storage.removal", "'destroy' or 'retain'"),
    # what is staged
    ([("staging.artifacts", [{"source": "VisGym/m", "folder": "m"}])], f"{STAGED}.source", "hf://owner/name"),
    (
        [("staging.artifacts", [{"source": "s3://b", "folder": "m"}])],
        f"{STAGED}.source",
        "s3://bucket/prefix",
    ),
    (
        [("staging.artifacts", [{"source": "hf://VisGym/visgym_model@main/m", "folder": "m"}])],
        f"{STAGED}.source",
        "all 40 digits",
    ),
    (
        [("staging.artifacts", [{"source": MODEL, "folder": "/m"}])],
        f"{STAGED}.folder",
        "under the shared mount",
    ),
    ([("staging.artifacts", [{"source": MODEL, "folder": "a/../../m"}])], f"{STAGED}.folder", "pattern"),
    (
        [("staging.artifacts", [{"source": MODEL, "folder": "m"}, {"source": f"{MODEL}/x", "folder": "m"}])],
        "staging.artifacts",
        "two artifacts go to one folder",
    ),
    ([("staging.hub_token_secret_arn", ROLE)], "staging.hub_token_secret_arn", "Secrets Manager"),
    (
        [("staging.hub_token_secret_arn", "arn:aws:secretsmanager:eu-west-2:111122223333:secret:hub-AbCdEf")],
        "staging.hub_token_secret_arn",
        "not in us-east-2",
    ),
    (
        [
            ("region", "eu-north-1"),
            ("network.control_plane_zone_ids", ["eun1-az1", "eun1-az2"]),
            ("network.hyperpod_zone_id", "eun1-az1"),
            ("observability.grafana_authentication", "saml"),
        ],
        "observability.grafana_authentication",
        "not offered in eu-north-1",
    ),
]


@pytest.mark.parametrize(
    ("changes", "field", "told"), REFUSED, ids=[str(index) for index in range(len(REFUSED))]
)
def test_refused(changes: list[tuple[str, Any]], field: str, told: str) -> None:
    with pytest.raises(SettingsError) as error:
        parse_settings(walkthrough(*changes))
    lines = [line for line in str(error.value).splitlines() if line.startswith(f"{field} = ")]
    assert lines, f"no line about {field} in:\n{error.value}"
    assert any(told in line for line in lines), str(error.value)


def test_every_fault_has_its_line() -> None:
    environment = walkthrough((f"{GPU}.instance_count", -1), ("name", "Maze"), ("colour", "red"))
    with pytest.raises(SettingsError) as error:
        parse_settings(environment)
    assert [fault.field for fault in error.value.faults] == ["name", f"{ONE}.instance_count", "colour"]
    assert len(str(error.value).splitlines()) == 3


def test_a_long_value_is_shortened() -> None:
    with pytest.raises(SettingsError) as error:
        parse_settings(walkthrough(("name", "m" * 500)))
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_environment_of_cdk_json_is_accepted(environment: str) -> None:
    assert load_settings(environment).name


def test_an_unknown_environment_names_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"environment = staging: .* Use one of: .*walkthrough"):
        load_settings("staging")


def test_a_file_of_ones_own_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cdk.json"
    path.write_text(json.dumps({"context": {"environments": {"mine": walkthrough(("name", "mine"))}}}))
    assert load_settings("mine", path).name == "mine"


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"context": {}}', None])
def test_a_file_that_holds_no_environments_is_refused_in_one_line(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "cdk.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingsError, match=r"cdk\.json = .*context\.environments") as error:
        load_settings("walkthrough", path)
    assert len(str(error.value).splitlines()) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def paths(value: Any, prefix: str = "") -> Iterator[str]:
    items = enumerate(value) if isinstance(value, list) else value.items()
    for key, inner in items:
        yield f"{prefix}{key}"
        if isinstance(inner, list | dict):
            yield from paths(inner, f"{prefix}{key}.")


@given(path=st.sampled_from(sorted(paths(ENVIRONMENTS["walkthrough"]))), value=JSON)
def test_any_value_anywhere_is_accepted_or_refused_and_never_a_traceback(path: str, value: Any) -> None:
    with suppress(SettingsError):
        assert parse_settings(walkthrough((path, value))).name


def test_settings_do_not_change_afterwards() -> None:
    settings = load_settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.name = "other"  # type: ignore[misc]


def test_efa_is_used_where_the_type_has_it_unless_forbidden() -> None:
    gpu, head = load_settings().instance_groups
    assert (gpu.efa_interfaces, head.efa_interfaces) == (1, 0)
    without = parse_settings(walkthrough((f"{GPU}.efa", False)))
    assert without.instance_groups[0].efa_interfaces == 0


def test_one_thread_per_core_halves_the_cpus() -> None:
    settings = parse_settings(walkthrough((f"{GPU}.threads_per_core", 1)))
    assert settings.instance_groups[0].vcpus == 24


def sections(model: type[BaseModel]) -> set[type[BaseModel]]:
    found = {model}
    for field in model.model_fields.values():
        for part in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(part, type) and issubclass(part, Section):
                found |= sections(part)
    return found


def test_every_setting_is_documented_because_the_text_is_the_remedy() -> None:
    undocumented = [
        f"{model.__name__}.{name}"
        for model in sections(Settings)
        for name, field in model.model_fields.items()
        if not field.description
    ]
    assert undocumented == []
