"""The files of the logger observer: records, lines, rotation, and reading them back."""
