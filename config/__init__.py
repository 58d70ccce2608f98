"""What is true before the first message: settings, errors, the database, definitions, migrations.

Nothing here knows what a run does; every other room may import this one, and this one imports none.
"""

from config import folders

folders.require()
folders.warn_of_hidden_strangers()
