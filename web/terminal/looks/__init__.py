"""What the doctor looks at, a file each; a look takes the settings and yields verdicts, each with its remedy."""
