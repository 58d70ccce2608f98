"""The doctor's checks by subject; a check takes the settings and yields verdicts, each with its remedy."""
