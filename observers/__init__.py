"""The audience: each observer sees every payload of a run, in order, and can change nothing.

Observers import payloads and the hot log, never agents or the dispatcher.
"""

import callboard_folders

callboard_folders.require()
