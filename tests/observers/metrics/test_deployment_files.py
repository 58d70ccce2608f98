"""The dashboard and the autoscalers' files use metrics, labels and thresholds that there are."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from config.folders import ROOT
from observers.metrics.names import METRICS, SCALING, full_name

FOLDER = ROOT / "docs" / "deployment"
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
NAMES = {full_name(key) + suffix: metric for key, metric in METRICS.items() for suffix in SUFFIXES[metric.kind]}


def queries() -> list[str]:
    dashboard = json.loads((FOLDER / "grafana.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_the_dashboard_asks_for_metrics_that_there_are():
    used = {name for query in queries() for name in re.findall(r"callboard_\w+", query)}

    assert used - NAMES.keys() == set()


def test_the_dashboard_shows_every_metric():
    used = {name for query in queries() for name in re.findall(r"callboard_\w+", query)}

    assert {key for key in METRICS if not any(name.startswith(full_name(key)) for name in used)} == set()


def test_the_dashboard_groups_by_labels_that_there_are():
    for query in queries():
        labels = {label.strip() for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(",")}
        existing = {label for name in re.findall(r"callboard_\w+", query) for label in NAMES[name].labels}

        assert labels - existing - {"le"} == set(), query


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def test_keda_scales_by_the_six_signals_at_their_thresholds():
    thresholds = {}
    for document in documents("keda.yaml"):
        assert document["kind"] == "ScaledObject"
        for trigger in document["spec"]["triggers"]:
            match = re.search(r'callboard_scaling_signal\{signal="(\w+)"\}', trigger["metadata"]["query"])
            assert match is not None
            thresholds[match[1]] = float(trigger["metadata"]["threshold"])

    assert thresholds == SCALING


@pytest.mark.parametrize("document", documents("hpa.yaml"), ids=lambda document: document["metadata"]["name"])
def test_the_autoscaler_uses_signals_that_there_are(document: dict[str, Any]):
    assert document["apiVersion"] == "autoscaling/v2"
    for metric in document["spec"]["metrics"]:
        if metric["type"] == "External":
            chosen = metric["external"]["metric"]
            signal = chosen["selector"]["matchLabels"]["signal"]
            target = metric["external"]["target"]
            value = target.get("averageValue") or target["value"]
            assert chosen["name"] in NAMES
            assert float(str(value).replace("500m", "0.5")) == SCALING[signal]
        else:
            share = metric["resource"]["target"]["averageUtilization"] / 100
            assert (
                share == {"cpu": SCALING["worker_cpu"], "memory": SCALING["worker_memory"]}[metric["resource"]["name"]]
            )
