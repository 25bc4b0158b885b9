"""The self test finds each fault by name, and never waits longer than it says."""

import dataclasses
import time

import pytest
import ray

from training.all_reduce import Backend, all_reduce_ends_within
from training.self_test import (
    Expectation,
    Gpu,
    NodeFacts,
    SelfTestFailed,
    faults_in,
    parse_nvidia_smi,
    probe,
    run_self_test,
)

CARD = Gpu(model="RTX PRO 6000", driver="580.95.05", memory_mib=97_887)
EXPECTED = Expectation(gpus_per_node=2, nodes=3, free_shared_gib=100, free_local_gib=5)


def node(name, **changes):
    facts = NodeFacts(
        node=name,
        gpus=(CARD, CARD),
        versions={"ray": "2.57.0", "torch": "2.13.0"},
        sees_token=True,
        free_shared_gib=1000,
        free_local_gib=50,
    )
    return dataclasses.replace(facts, **changes)


HEAD = node("head", gpus=())
WORKERS = [node("w0"), node("w1"), node("w2")]


def test_a_healthy_cluster_has_no_faults():
    assert faults_in([HEAD, *WORKERS], EXPECTED) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gpus": (CARD,)}, ["w2.gpus = 1", "2 GPUs", "Replace the node"]),
        ({"gpus": ()}, ["nodes = 2", "fewer than the 3"]),
        (
            {"gpus": (dataclasses.replace(CARD, driver="570.12"),) * 2},
            ["w2.driver = 570.12", "older than r580"],
        ),
        ({"gpus": (dataclasses.replace(CARD, driver="590.1"),) * 2}, ["GPU driver", "w2 590.1", "differs"]),
        ({"gpus": (dataclasses.replace(CARD, model="L40S"),) * 2}, ["GPU model", "w2 L40S"]),
        ({"versions": {"ray": "2.56.0", "torch": "2.13.0"}}, ["version of ray", "w2 2.56.0", "same image"]),
        ({"versions": {"ray": "2.57.0"}}, ["version of torch", "w2 none"]),
        ({"sees_token": False}, ["w2.shared", "Mount the same file system"]),
        ({"free_shared_gib": 99.0}, ["w2.free_shared_gib = 99.0", "100.0 GiB"]),
        ({"free_local_gib": 1.0}, ["w2.free_local_gib = 1.0", "5.0 GiB"]),
    ],
)
def test_each_fault_is_named_with_its_node_and_remedy(changes, words):
    faults = faults_in([HEAD, *WORKERS[:2], node("w2", **changes)], EXPECTED)
    text = "\n".join(map(str, faults))
    for word in words:
        assert word in text
    assert all(fault.remedy for fault in faults)


def test_a_rehearsal_looks_for_no_gpus():
    expected = Expectation(gpus_per_node=0, nodes=1, free_shared_gib=0.1)
    assert faults_in([node("laptop", gpus=())], expected) == []


def test_nvidia_smi_is_read():
    text = "NVIDIA RTX PRO 6000 Blackwell Server Edition, 580.95.05, 97887\n" * 2
    cards = parse_nvidia_smi(text)
    assert len(cards) == 2
    assert cards[0].driver == "580.95.05"
    assert cards[0].memory_mib == 97_887


def test_a_node_that_does_not_see_the_drivers_file_says_so(tmp_path):
    assert probe(tmp_path, "no-such-token").sees_token is False


def test_all_reduce_of_two_processes_gives_the_sum():
    assert all_reduce_ends_within(120, ranks=2, backend=Backend.GLOO, environment={"OMP_NUM_THREADS": "1"})


def test_a_hanging_all_reduce_is_ended_in_time():
    """Half a second is less than the processes need to start: to the guard, the same as a hang."""
    started = time.monotonic()
    assert not all_reduce_ends_within(0.5, ranks=2, backend=Backend.GLOO, environment={})
    assert time.monotonic() - started < 10


def test_a_failing_all_reduce_is_not_a_success():
    environment = {"GLOO_SOCKET_IFNAME": "no-such-interface"}
    assert not all_reduce_ends_within(120, ranks=2, backend=Backend.GLOO, environment=environment)


@pytest.fixture
def one_node_ray(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_a_real_node_passes_and_a_full_disk_is_found_before_any_work(one_node_ray, tmp_path):
    expected = Expectation(gpus_per_node=0, nodes=1, free_shared_gib=0.01, free_local_gib=0.01)
    passed = run_self_test(tmp_path, expected)
    (facts,) = passed.nodes
    assert passed.environment == {}
    assert facts.versions["ray"] == ray.__version__
    assert list((tmp_path / "self-test").iterdir()) == []
    with pytest.raises(SelfTestFailed, match="free_shared_gib"):
        run_self_test(tmp_path, dataclasses.replace(expected, free_shared_gib=1e9))
