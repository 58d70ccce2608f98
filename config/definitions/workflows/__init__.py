"""A workflow's definition: the fields of its file, its node types, and its graph."""
