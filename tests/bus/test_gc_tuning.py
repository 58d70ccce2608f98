"""A process that was large for a moment becomes small again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bus import gc_tuning
from bus.gc_tuning import GROWTH_BYTES, MAX_SKIPPED, FreeMemory

ROOT = Path(__file__).parents[2]
MIB = 1024 * 1024
AFTER_RESULTS = """
import threading
from bus.gc_tuning import FreeMemory, resident_bytes
memory = FreeMemory()
memory.give_back()
small = resident_bytes()
kept = []
def results():
    for _ in range(400):
        large = [b"x" * (100_000 + len(kept) % 7)] + [str(number) * 4 for number in range(300)]
        made.append(large)
        kept.append(bytes(600))  # lives above what is freed
made = []
threads = [threading.Thread(target=results) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
large = resident_bytes()
made.clear()
freed = resident_bytes()
given = memory.give_back()
print(small, large, freed, given, resident_bytes())
"""


@pytest.mark.parity
def test_what_large_results_took_is_given_back():
    done = subprocess.run([sys.executable, "-c", AFTER_RESULTS], capture_output=True, text=True, check=True, cwd=ROOT)
    small, large, freed, reduction, now = (int(word) for word in done.stdout.split())

    assert large - small > 100 * MIB
    assert freed - small > 50 * MIB, "the allocator gives back by itself; this test shows nothing then"
    assert reduction > 50 * MIB
    assert now - small < 48 * MIB


def test_a_process_that_did_not_grow_is_left_alone():
    now, trims = [0], []
    memory = FreeMemory(size=lambda: now[0], trim=lambda: trims.append(1))
    for now[0] in (100 * MIB, 110 * MIB, 100 * MIB + GROWTH_BYTES - 1):
        memory.give_back()

    assert trims == []


def test_a_process_that_needs_its_memory_is_asked_ever_more_seldom():
    now, trims = [0], []
    memory = FreeMemory(size=lambda: now[0], trim=lambda: trims.append(1))
    for now[0] in [100 * MIB] + [500 * MIB] * 200:
        memory.give_back()

    assert 200 / (MAX_SKIPPED + 1) < len(trims) < 20


def test_what_is_freed_later_is_given_back_too():
    now, freed_to = [0], [500 * MIB]
    memory = FreeMemory(size=lambda: now[0], trim=lambda: now.__setitem__(0, freed_to[0]))
    for now[0] in [100 * MIB] + [500 * MIB] * 3:
        memory.give_back()
    freed_to[0] = 100 * MIB

    assert max(memory.give_back() for _ in range(MAX_SKIPPED + 1)) == 400 * MIB


def test_a_system_that_does_not_say_is_left_alone(monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda *_: (_ for _ in ()).throw(OSError()))

    assert gc_tuning.resident_bytes() == 0
    assert FreeMemory().give_back() == 0
