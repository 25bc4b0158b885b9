"""The dashboards: training, Ray, machines, cost."""

from stacks.dashboards.panels import FILE_SYSTEM, Board, Plot, ServicePlot

RUN = '{run_id="$run"}'
Z_95 = 1.96


def wilson(bound: str) -> str:
    """A bound of Wilson's 95 % interval of the solved share, in PromQL. `bound` is "+" or "-"."""
    share, mazes = f"ray_rl_evaluation_solved_ratio{RUN}", f"ray_rl_evaluation_mazes{RUN}"
    z2 = Z_95**2
    spread = f"{Z_95} * sqrt({share} * (1 - {share}) / {mazes} + {z2:.4f} / (4 * {mazes} * {mazes}))"
    return f"({share} + {z2:.4f} / (2 * {mazes}) {bound} {spread}) / (1 + {z2:.4f} / {mazes})"


def phase(*names: str) -> dict[str, str]:
    return {name: f'ray_rl_phase_seconds{{run_id="$run", phase="{name}"}}' for name in names}


def training() -> Board:
    """What an RL researcher looks at."""
    return Board(
        uid="rl-training",
        title="RL training",
        rows={
            "Is it learning?": (
                Plot(
                    title="Mazes solved, fixed evaluation set",
                    about="Share with Wilson's 95 % interval. The only number that claims are made of.",
                    unit="percentunit",
                    minimum=0,
                    maximum=1,
                    queries={
                        "solved": f"ray_rl_evaluation_solved_ratio{RUN}",
                        "upper bound": wilson("+"),
                        "lower bound": wilson("-"),
                    },
                ),
                Plot(
                    title="Mazes solved, training episodes",
                    unit="percentunit",
                    minimum=0,
                    maximum=1,
                    queries={
                        "solved": f"ray_rl_rollout_solved_ratio{RUN}",
                        "pass@k (any positive reward)": f"ray_rl_pass_at_k_ratio{RUN}",
                    },
                    about="pass@k counts format credit too, so it can exceed the solved share.",
                ),
                Plot(
                    title="Reward",
                    queries={
                        "training": f"ray_rl_reward_mean{RUN}",
                        "evaluation": f"ray_rl_evaluation_score{RUN}",
                    },
                ),
            ),
            "Is the update healthy?": (
                Plot(
                    title="Advantage spread",
                    about="Zero: all samples of each group earn the same, and nothing is learned.",
                    minimum=0,
                    queries={"mean of |advantage|": f"ray_rl_advantage_abs_mean{RUN}"},
                ),
                Plot(
                    title="Entropy and KL",
                    queries={
                        "entropy per token": f"ray_rl_policy_entropy{RUN}",
                        "KL to the reference": f"ray_rl_policy_kl{RUN}",
                        "rollout against training": f"ray_rl_logprob_gap_mean{RUN}",
                    },
                    about="A jump of the last one after a sync means that engines run another adapter.",
                ),
                Plot(
                    title="Clipped tokens",
                    unit="percentunit",
                    minimum=0,
                    queries={"clipped": f"ray_rl_clipped_ratio{RUN}"},
                ),
                Plot(
                    title="Loss and gradient",
                    queries={
                        "policy loss": f"ray_rl_policy_loss{RUN}",
                        "gradient norm": f"ray_rl_gradient_norm{RUN}",
                    },
                ),
                Plot(title="Learning rate", queries={"rate": f"ray_rl_learning_rate{RUN}"}, unit="sci"),
                Plot(
                    title="Values that are no numbers",
                    minimum=0,
                    queries={"NaN or infinite": f"ray_rl_not_finite{RUN}"},
                ),
            ),
            "What does the policy do?": (
                Plot(
                    title="How episodes end",
                    unit="percentunit",
                    minimum=0,
                    maximum=1,
                    queries={"{{reason}}": f"ray_rl_stop_reason_ratio{RUN}"},
                ),
                Plot(
                    title="Turns and invalid actions of an episode",
                    minimum=0,
                    queries={
                        "turns": f"ray_rl_turns_mean{RUN}",
                        "invalid actions": f"ray_rl_invalid_actions_mean{RUN}",
                    },
                ),
                Plot(
                    title="Tokens of an episode",
                    minimum=0,
                    queries={"tokens": f"ray_rl_response_tokens_mean{RUN}"},
                ),
            ),
            "How fast, and how safe?": (
                Plot(
                    title="Time of a step by phase",
                    unit="s",
                    minimum=0,
                    queries=phase(
                        "generate",
                        "fwd_logprobs_values_reward",
                        "policy_train",
                        "sync_weights",
                        "save_checkpoints",
                        "eval",
                    ),
                ),
                Plot(
                    title="Training throughput",
                    unit="short",
                    minimum=0,
                    queries={"tokens per second and GPU": f"ray_rl_tokens_per_second_per_gpu{RUN}"},
                ),
                Plot(
                    title="Since the last step and the last checkpoint",
                    unit="s",
                    minimum=0,
                    about="What a lost node would cost is the age of the checkpoint.",
                    queries={
                        "step": f"time() - ray_rl_step_timestamp_seconds{RUN}",
                        "checkpoint": f"time() - ray_rl_checkpoint_timestamp_seconds{RUN}",
                    },
                ),
            ),
        },
    )


def ray_cluster() -> Board:
    """Tasks, actors, object store, nodes."""
    return Board(
        uid="rl-ray",
        title="Ray cluster",
        rows={
            "Work": (
                Plot(title="Tasks by state", queries={"{{State}}": "sum by (State) (ray_tasks)"}, minimum=0),
                Plot(
                    title="Actors by state", queries={"{{State}}": "sum by (State) (ray_actors)"}, minimum=0
                ),
                Plot(
                    title="Placement groups by state",
                    queries={"{{State}}": "sum by (State) (ray_placement_groups)"},
                    about="A group that stays PENDING waits for GPUs that a dead attempt may still hold.",
                    minimum=0,
                ),
            ),
            "Memory": (
                Plot(
                    title="Object store",
                    unit="bytes",
                    queries={"{{Location}}": "sum by (Location) (ray_object_store_memory)"},
                    minimum=0,
                ),
                Plot(
                    title="Memory of a node",
                    unit="percentunit",
                    minimum=0,
                    maximum=1,
                    queries={"{{instance}}": "ray_node_mem_used / ray_node_mem_total"},
                ),
                Plot(
                    title="Processor of a node",
                    unit="percent",
                    minimum=0,
                    maximum=100,
                    queries={"{{instance}}": "ray_node_cpu_utilization"},
                ),
            ),
            "Health": (
                Plot(
                    title="Nodes alive",
                    queries={"nodes": "count(ray_node_cpu_count)"},
                    minimum=0,
                ),
                Plot(
                    title="Workers that died unexpectedly",
                    queries={
                        "{{instance}}": "increase(ray_node_manager_unexpected_worker_failure_total[10m])"
                    },
                    minimum=0,
                ),
                Plot(
                    title="Local disk of a node",
                    unit="percentunit",
                    minimum=0,
                    maximum=1,
                    queries={
                        "{{instance}}": "ray_node_disk_usage / (ray_node_disk_usage + ray_node_disk_free)"
                    },
                ),
            ),
        },
    )


def machines() -> Board:
    """GPUs, network, shared file system."""
    return Board(
        uid="rl-machines",
        title="GPUs, network and file system",
        rows={
            "GPUs": (
                Plot(
                    title="GPU utilization",
                    unit="percent",
                    minimum=0,
                    maximum=100,
                    queries={"{{Hostname}} {{gpu}}": "DCGM_FI_DEV_GPU_UTIL"},
                ),
                Plot(
                    title="GPU memory",
                    unit="percentunit",
                    minimum=0,
                    maximum=1,
                    queries={
                        "{{Hostname}} {{gpu}}": (
                            "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)"
                        )
                    },
                ),
                Plot(
                    title="GPU faults (Xid)",
                    queries={"{{Hostname}} {{gpu}}": "DCGM_FI_DEV_XID_ERRORS"},
                    about="The last Xid; HyperPod acts on the fatal ones.",
                    minimum=0,
                ),
            ),
            "Network": (
                Plot(
                    title="Received by a node (TCP; EFA is not in it)",
                    unit="Bps",
                    queries={"{{instance}}": "ray_node_network_receive_speed"},
                    minimum=0,
                ),
                Plot(
                    title="Sent by a node (TCP; EFA is not in it)",
                    unit="Bps",
                    queries={"{{instance}}": "ray_node_network_send_speed"},
                    minimum=0,
                ),
            ),
            "Shared file system": (
                ServicePlot(
                    title="Bytes per minute",
                    namespace="AWS/FSx",
                    metrics={"DataReadBytes": "Sum", "DataWriteBytes": "Sum"},
                    dimensions={"FileSystemId": FILE_SYSTEM},
                    unit="bytes",
                ),
                ServicePlot(
                    title="Free space",
                    namespace="AWS/FSx",
                    metrics={"FreeDataStorageCapacity": "Sum"},
                    dimensions={"FileSystemId": FILE_SYSTEM},
                    unit="bytes",
                ),
            ),
        },
    )


def cost(usd_per_hour: float) -> Board:
    """Dollars of the instances, estimated from list prices; storage and services are not in it."""
    hours = f"(time() - ray_rl_start_timestamp_seconds{RUN}) / 3600"
    spent = f"{hours} * {usd_per_hour:.2f}"
    solved = f"ray_rl_evaluation_solved_ratio{RUN}"
    gained = f"100 * ({solved} - min_over_time({solved}[30d]))"
    about = f"Estimate: instances at {usd_per_hour:.2f} $ per hour by EC2 list price, this attempt only."
    return Board(
        uid="rl-cost",
        title="Cost",
        rows={
            "Cost": (
                Plot(title="Spent so far", unit="currencyUSD", minimum=0, about=about, queries={"$": spent}),
                Plot(
                    title="Cost of a point of solved mazes",
                    about=f"{about} Points since the lowest evaluation of the run.",
                    unit="currencyUSD",
                    minimum=0,
                    queries={"$ per point": f"({spent}) / ({gained} > 0)"},
                ),
                Plot(title="Hours", unit="h", minimum=0, queries={"hours": hours}),
            )
        },
    )


def boards(*, usd_per_hour: float) -> tuple[Board, ...]:
    return training(), ray_cluster(), machines(), cost(usd_per_hour)
