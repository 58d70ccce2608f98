"""The live end of a log in Redis: stream and channel, subscriber, signatures. It may lose everything at any moment."""
