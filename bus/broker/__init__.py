"""What the broker carries and how Celery is set up for it: configuration, envelopes, consumer and producer."""
