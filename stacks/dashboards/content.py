"""The document that fills a Grafana workspace: see `stacks.handlers.grafana_content.Content`."""

import re
from typing import Any

from stacks.dashboards.alerts import EVALUATION_SECONDS, FOLDER, GROUP, Alert, FileSystemAlert, alerts
from stacks.dashboards.boards import boards
from stacks.dashboards.panels import CLOUDWATCH, PROMETHEUS
from stacks.settings import Settings

RECEIVER = "RL team"
PLACEHOLDER = re.compile(r"@@([A-Z_]+)@@")
"""What only a deployment knows; the custom resource fills it in."""


def usd_per_hour(settings: Settings) -> float:
    """Instances only, by list price."""
    return sum(group.instance_count * group.type.usd_per_hour for group in settings.instance_groups)


def grafana_content(settings: Settings) -> dict[str, Any]:
    """Data sources, dashboards and alerts of an environment. The same settings give the same document."""
    price = usd_per_hour(settings)
    rules: tuple[Alert | FileSystemAlert, ...] = (
        *alerts(budget_usd=settings.observability.budget_usd, usd_per_hour=price),
        FileSystemAlert(capacity_gib=settings.storage.capacity_gib),
    )
    return {
        "folder": {"uid": FOLDER, "title": f"RL on HyperPod: {settings.name}"},
        "data_sources": [_prometheus(), _cloudwatch()],
        "dashboards": [board.to_json() for board in boards(usd_per_hour=price)],
        "contact_points": [
            {
                "uid": "rl-team",
                "name": RECEIVER,
                "type": "sns",
                "settings": {"topic": "@@TOPIC_ARN@@", "authProvider": "default"},
            }
        ],
        "rule_groups": [
            {"title": GROUP, "interval": EVALUATION_SECONDS, "rules": [alert.rule() for alert in rules]}
        ],
        "receiver": RECEIVER,
    }


def _prometheus() -> dict[str, Any]:
    return {
        "uid": PROMETHEUS.uid,
        "name": "RL Prometheus",
        "type": "prometheus",
        "access": "proxy",
        "url": "@@PROMETHEUS_ENDPOINT@@",
        "jsonData": {
            "httpMethod": "POST",
            "sigV4Auth": True,
            "sigV4AuthType": "ec2_iam_role",
            "sigV4Region": "@@REGION@@",
        },
    }


def _cloudwatch() -> dict[str, Any]:
    return {
        "uid": CLOUDWATCH.uid,
        "name": "RL CloudWatch",
        "type": "cloudwatch",
        "access": "proxy",
        "jsonData": {"authType": "ec2_iam_role", "defaultRegion": "@@REGION@@"},
    }
