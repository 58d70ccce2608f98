"""What another application on the same broker may set, for a worker that imports this (`celery worker -I`)."""

from bus.celery_app import app

app.conf.broker_transport_options |= {
    "ack_emulation": True,
    "visibility_timeout": 1,
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
}
