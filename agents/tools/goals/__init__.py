"""The tools of the goals in `config/goals`, and those with which an agent hands its conversation over."""
