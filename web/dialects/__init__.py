"""What earlier designs and other protocols call this server by: one file a protocol."""
