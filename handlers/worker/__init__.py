"""The parts of a worker process besides message handling: slots, polling, draining, maintenance, warm-up."""
