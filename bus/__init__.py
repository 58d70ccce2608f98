"""The post office: messages, payloads, routes, Celery; and the journal of runs, steps and events.

It knows who gets a letter, never what is in it: no agent, tool, model or page is imported here.
"""

import callboard_folders

callboard_folders.require()
