"""The journal: accepted runs, their owners, their steps, and the numbered event log that all readers follow.

SQL is the source of truth. Redis holds the newest part of the log and hints; either may be lost at any moment.

A process has one ``Journal``, with a part for each actor:

- ``clients`` start runs, stop them and answer their questions: ``accept``, ``control``, ``decide``.
- ``owner`` is this process as the owner of runs: ``claim_and_begin``, ``writer``, ``lease_manager``, and ``unowned``
  with the runs that it may take.
- ``readers`` follow logs, read pages of them, and list runs and threads: ``follow``, ``page``, ``runs``, ``threads``.
- ``stores`` keep what belongs to other folders: workers and their tools, manifests, logins, links, sticky approvals.
- ``live`` sends wake-ups, live events and hints: ``relay``, ``hot_log``, ``publish``.

The parts are classes in ``bus/journal/actors/``.

Code outside ``bus`` imports ``Journal`` from here. What the parts take and return is in the modules of their names:
``bus.journal.clients``, ``owner``, ``readers`` and ``stores``, and of observers that tail the log in
``bus.journal.tailing``; the questions of runs and their answers are in ``bus.journal.approvals``, and what callers may
handle in ``bus.journal.errors``. Nothing deeper is imported.
"""

from typing import TYPE_CHECKING

from bus.journal.on_demand import on_demand

if TYPE_CHECKING:
    from bus.journal.journal import Journal
else:
    __getattr__ = on_demand(globals())
