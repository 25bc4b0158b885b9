"""The namespace of the Ray workloads with its limits: quota, Pod Security, network, priority, disruption."""

from cdk8s import Chart
from cdk8s_plus_34 import k8s
from constructs import Construct

from k8s import names
from k8s.props import RayWorkload
from k8s.sizing import head_size, worker_size

_EVERYWHERE = "0.0.0.0/0"
_POD_IDENTITY_AGENT = "169.254.170.23/32"
_POD_IDENTITY_PORT = 80
_OTLP_PORT = 4317
_HANG_DETECTION_PORT = 8889
_SUBMITTER_SLACK_CPUS = 4
_SUBMITTER_SLACK_GIB = 16
_PRIORITY = 100_000


class NamespaceChart(Chart):
    """Creates the namespace and everything that bounds it. Deleting it deletes all that lives in it."""

    def __init__(self, scope: Construct, construct_id: str, *, workload: RayWorkload) -> None:
        super().__init__(scope, construct_id, labels={names.PART_OF_LABEL: workload.deployment})
        self._workload = workload
        self._namespace()
        self._service_account()
        self._quota()
        self._default_resources()
        self._priority()
        self._disruption_budget()
        self._network_policies()

    def _metadata(self, name: str) -> k8s.ObjectMeta:
        return k8s.ObjectMeta(name=name, namespace=self._workload.namespace)

    def _namespace(self) -> None:
        # Ray pods meet "restricted" and are checked against it before they are deployed. The namespace
        # enforces "baseline": the one pod that hands the file system to Ray's user has to run as root.
        levels = {"enforce": "baseline", "audit": "restricted", "warn": "restricted"}
        labels = {f"pod-security.kubernetes.io/{mode}": level for mode, level in levels.items()}
        k8s.KubeNamespace(
            self, "namespace", metadata=k8s.ObjectMeta(name=self._workload.namespace, labels=labels)
        )

    def _service_account(self) -> None:
        k8s.KubeServiceAccount(
            self,
            "service-account",
            metadata=self._metadata(names.SERVICE_ACCOUNT),
            automount_service_account_token=False,
        )

    def _quota(self) -> None:
        """Room for one Ray cluster, its submitter and small helpers: a second cluster fails at once."""
        head, worker = head_size(self._workload.head), worker_size(self._workload.workers)
        workers = self._workload.workers.count
        cpus = head.cpus + workers * worker.cpus + _SUBMITTER_SLACK_CPUS
        memory_gib = head.memory_gib + workers * worker.memory_gib + _SUBMITTER_SLACK_GIB
        hard = {
            "requests.cpu": str(cpus),
            "limits.cpu": str(cpus),
            "requests.memory": f"{memory_gib}Gi",
            "limits.memory": f"{memory_gib}Gi",
            f"requests.{names.GPU}": str(workers * worker.gpus),
            f"requests.{names.EFA}": str(workers * worker.efa_interfaces),
            "services.loadbalancers": "0",
            "services.nodeports": "0",
        }
        k8s.KubeResourceQuota(
            self,
            "quota",
            metadata=self._metadata("one-ray-cluster"),
            spec=k8s.ResourceQuotaSpec(
                hard={name: k8s.Quantity.from_string(amount) for name, amount in hard.items()}
            ),
        )

    def _default_resources(self) -> None:
        """A pod that names no resources would be refused under the quota: give it small ones."""
        small = {"cpu": k8s.Quantity.from_string("500m"), "memory": k8s.Quantity.from_string("1Gi")}
        k8s.KubeLimitRange(
            self,
            "default-resources",
            metadata=self._metadata("default-resources"),
            spec=k8s.LimitRangeSpec(
                limits=[k8s.LimitRangeItem(type="Container", default=small, default_request=small)]
            ),
        )

    def _priority(self) -> None:
        k8s.KubePriorityClass(
            self,
            "priority",
            metadata=k8s.ObjectMeta(name=self._workload.deployment),
            value=_PRIORITY,
            description="Ray training pods: losing one costs the steps since the last checkpoint.",
        )

    def _disruption_budget(self) -> None:
        """No voluntary eviction takes a pod out of a running cluster, except a pod that is broken anyway.

        A count, not a percentage: Kubernetes cannot ask a RayCluster for its size.
        """
        k8s.KubePodDisruptionBudget(
            self,
            "disruption-budget",
            metadata=self._metadata("ray"),
            spec=k8s.PodDisruptionBudgetSpec(
                min_available=k8s.IntOrString.from_number(1 + self._workload.workers.count),
                unhealthy_pod_eviction_policy="AlwaysAllow",
                selector=k8s.LabelSelector(match_labels={names.RAY_NODE_LABEL: "yes"}),
            ),
        )

    def _network_policies(self) -> None:
        """Nothing in, nothing out, but for what is listed. EFA and Lustre pass below these rules: the first
        leaves the node by its own card, the second is the node's kernel; security groups hold both."""
        ray, submitter = {names.RAY_NODE_LABEL: "yes"}, {names.COMPONENT_LABEL: "submitter"}
        self._policy("default-deny", pods={}, ingress=[], egress=[])
        self._policy("dns", pods={}, egress=[_to_dns()])
        self._policy(
            "ray",
            pods=ray,
            ingress=[
                k8s.NetworkPolicyIngressRule(from_=[_pods(ray)]),
                _from(
                    names.DASHBOARD_PORT,
                    _pods(submitter),
                    _namespace(names.OPERATOR_NAMESPACE),
                    _namespace(names.RAY_ENDPOINT_NAMESPACE),
                ),
                _from(names.METRICS_PORT, _namespace(names.OBSERVABILITY_NAMESPACE)),
            ],
            egress=[
                k8s.NetworkPolicyEgressRule(to=[_pods(ray)]),
                _to(443, _address(_EVERYWHERE)),
                _to(_POD_IDENTITY_PORT, _address(_POD_IDENTITY_AGENT)),
                _to(_OTLP_PORT, _namespace(names.OBSERVABILITY_NAMESPACE)),
                _to(_HANG_DETECTION_PORT, _address(_EVERYWHERE)),
            ],
        )
        self._policy("submitter", pods=submitter, egress=[_to(names.DASHBOARD_PORT, _pods(ray))])
        self._policy(
            names.STAGING,
            pods={names.COMPONENT_LABEL: names.STAGING},
            egress=[
                _to(443, _address(_EVERYWHERE)),
                _to(_POD_IDENTITY_PORT, _address(_POD_IDENTITY_AGENT)),
            ],
        )

    def _policy(
        self,
        name: str,
        *,
        pods: dict[str, str],
        ingress: list[k8s.NetworkPolicyIngressRule] | None = None,
        egress: list[k8s.NetworkPolicyEgressRule] | None = None,
    ) -> None:
        directions = {"Ingress": ingress, "Egress": egress}
        k8s.KubeNetworkPolicy(
            self,
            f"network-{name}",
            metadata=self._metadata(name),
            spec=k8s.NetworkPolicySpec(
                pod_selector=k8s.LabelSelector(match_labels=pods or None),
                policy_types=[direction for direction, rules in directions.items() if rules is not None],
                ingress=ingress,
                egress=egress,
            ),
        )


def _pods(labels: dict[str, str]) -> k8s.NetworkPolicyPeer:
    return k8s.NetworkPolicyPeer(pod_selector=k8s.LabelSelector(match_labels=labels))


def _namespace(name: str) -> k8s.NetworkPolicyPeer:
    labels = {"kubernetes.io/metadata.name": name}
    return k8s.NetworkPolicyPeer(namespace_selector=k8s.LabelSelector(match_labels=labels))


def _address(cidr: str) -> k8s.NetworkPolicyPeer:
    return k8s.NetworkPolicyPeer(ip_block=k8s.IpBlock(cidr=cidr))


def _port(number: int, protocol: str = "TCP") -> k8s.NetworkPolicyPort:
    return k8s.NetworkPolicyPort(port=k8s.IntOrString.from_number(number), protocol=protocol)


def _from(port: int, *peers: k8s.NetworkPolicyPeer) -> k8s.NetworkPolicyIngressRule:
    return k8s.NetworkPolicyIngressRule(from_=list(peers), ports=[_port(port)])


def _to(port: int, *peers: k8s.NetworkPolicyPeer) -> k8s.NetworkPolicyEgressRule:
    return k8s.NetworkPolicyEgressRule(to=list(peers), ports=[_port(port)])


def _to_dns() -> k8s.NetworkPolicyEgressRule:
    return k8s.NetworkPolicyEgressRule(
        to=[_namespace("kube-system")], ports=[_port(53, "UDP"), _port(53, "TCP")]
    )
