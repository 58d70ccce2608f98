"""Agent definitions: YAML with line numbers, the fields, and the checks of dotted paths and schemas."""
