"""Every name belongs to one deployment, and a run's keys to one cluster slot."""

from __future__ import annotations

import re

import pytest
from redis.crc import key_slot

from bus.keys import Keys
from config.identity.principal import NAME
from config.settings import QUEUE_NAME


def test_every_name_starts_with_the_deployments():
    keys = Keys("blue")

    of_tenant = [
        keys.stream("acme", "run_1"),
        keys.meta("acme", "run_1"),
        keys.live("acme", "run_1"),
        keys.board("acme"),
    ]
    names = [*of_tenant, keys.nudges, keys.limits, keys.probe]

    assert all(name.startswith("callboard:blue:") for name in names)
    assert len(set(names)) == len(names)
    assert all(name.startswith("callboard:blue:acme:") for name in of_tenant)


@pytest.mark.parametrize("tenant", ["limits", "health", "runs", "nudges", "a.b@c+d-e_f", "T" * 64])
def test_no_name_of_a_tenant_is_one_of_the_deployment(tenant: str):
    keys = Keys("blue")

    assert re.fullmatch(NAME, tenant)
    for name in (keys.nudges, keys.limits, keys.probe):
        assert not name.startswith(f"{keys.prefix}{tenant}:")


def test_a_tenants_name_cannot_reach_into_another_part_of_a_key():
    for character in ":{}*?[]\\ \n":
        assert re.fullmatch(NAME, f"a{character}b") is None
    assert re.fullmatch(NAME, "_") is None, "it stands where no tenant's name does"


def test_no_key_is_the_list_of_a_queue():
    keys = Keys("blue")

    for name in (keys.stream("default", "run_1"), keys.meta("default", "run_1"), keys.probe):
        assert not re.fullmatch(QUEUE_NAME, name.removeprefix(keys.prefix))


def test_a_runs_keys_share_a_cluster_slot():
    keys = Keys("blue")

    assert key_slot(keys.stream("default", "run_1").encode()) == key_slot(keys.meta("default", "run_1").encode())


def test_two_deployments_share_no_name():
    blue, green = Keys("blue"), Keys("green")

    assert blue.nudges != green.nudges
    assert blue.board("acme") != green.board("acme")
    assert blue.stream("acme", "run_1") != green.stream("acme", "run_1")
