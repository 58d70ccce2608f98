"""The shop's own configuration; Callboard has a package of this name, too."""
