"""The parts of a worker process: claims of runs, slots, polling, draining, maintenance, warm-up."""
