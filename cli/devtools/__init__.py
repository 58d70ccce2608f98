"""The checks and tests behind `check` and `test`, and the reports of `bench`."""
