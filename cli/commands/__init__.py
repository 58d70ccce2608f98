"""The commands, one file each: arguments and output."""
