"""Settings, definitions, the database with its migrations, and the words and safeguards that all folders share.

Every other folder may import this one; it imports none of them.
"""

from config import folders

folders.require()
folders.warn_of_hidden_packages()
