"""Lines on which a promise rests: each is broken by itself, and tests of `check` or of `parity` have to notice."""
