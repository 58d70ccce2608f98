"""What happens when a message arrives: one short file a message, and what a worker process needs.

`ls handlers/` is all the system can be asked to do. Nothing here thinks; that is the agents' business.
"""

import callboard_folders

callboard_folders.require()
