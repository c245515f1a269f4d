"""Parts for the training loops of other libraries, a module for each, and what these write.

``tagtrace.integrations.transformers`` needs its library; nothing is imported before it is asked for.
"""

from tagtrace.integrations.training_dynamics import LearnedLabel, TrainingDynamics, read_dynamics

__all__ = ["LearnedLabel", "TrainingDynamics", "read_dynamics"]
