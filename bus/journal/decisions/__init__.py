"""What a person answers to a run's questions: the decision, and the links by which a person gets to it."""
