"""Labels of what runs have written into a sandbox: a later run that reads a file there has read it too.

They are kept beside the folder, where no file tool reaches: a line for each label, added and never taken away.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from pathlib import Path

from config.policy_decision import READ_FROM

MAX_BYTES = 64 * 1024
"""Longest file of labels that is read."""


def note_labels(sandbox: Path, labels: Collection[str]) -> None:
    """Keep the labels of the run that writes into ``sandbox``; what says where it read them from is left out.

    Raises:
        OSError: they cannot be kept.
    """
    new = {label for label in labels if not label.startswith(READ_FROM)} - labels_of(sandbox)
    if not new:
        return
    lines = "".join(f"\n{label}\n" for label in sorted(new)).encode()  # behind a line that a full disk cut, too
    file = os.open(_place_of(sandbox), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if os.write(file, lines) < len(lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(file)


def labels_of(sandbox: Path) -> frozenset[str]:
    """Return the labels of what was written into ``sandbox`` so far.

    Raises:
        OSError: they cannot be read.
    """
    try:
        file = os.open(_place_of(sandbox), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)  # ``open`` is a span of the call
    except FileNotFoundError:
        return frozenset()
    try:
        return frozenset(os.read(file, MAX_BYTES).decode("utf-8", "replace").split())
    finally:
        os.close(file)


def _place_of(sandbox: Path) -> Path:
    return sandbox.parent / f".labels-{sandbox.name}"  # no agent's name begins with a dot
