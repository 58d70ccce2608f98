"""The messages that processes send each other through the broker: one module a message, found by ``registry``."""
