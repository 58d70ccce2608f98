"""Everything that thinks: runner, loop, models and tools.

It may not know who listens (observers are called through the invoker) or how a message arrived.
"""

import callboard_folders

callboard_folders.require()
