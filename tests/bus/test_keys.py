"""Every name belongs to one deployment, and a run's keys to one cluster slot."""

from __future__ import annotations

import re

from redis.crc import key_slot

from bus.keys import Keys
from config.settings import QUEUE_NAME


def test_every_name_starts_with_the_deployments():
    keys = Keys("blue")

    names = [keys.stream("run_1"), keys.meta("run_1"), keys.live("run_1"), keys.nudges, keys.board, keys.probe]

    assert all(name.startswith("callboard:blue:") for name in names)
    assert len(set(names)) == len(names)


def test_no_key_is_the_list_of_a_queue():
    keys = Keys("blue")

    for name in (keys.stream("run_1"), keys.meta("run_1"), keys.probe):
        assert not re.fullmatch(QUEUE_NAME, name.removeprefix(keys.prefix))


def test_a_runs_keys_share_a_cluster_slot():
    keys = Keys("blue")

    assert key_slot(keys.stream("run_1").encode()) == key_slot(keys.meta("run_1").encode())


def test_two_deployments_share_no_name():
    blue, green = Keys("blue"), Keys("green")

    assert blue.nudges != green.nudges
    assert blue.stream("run_1") != green.stream("run_1")
