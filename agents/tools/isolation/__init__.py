"""What isolates a tool: the sandbox folder, guarded subprocesses with limits of the kernel, and a SQL process."""
