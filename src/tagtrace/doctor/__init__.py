"""Whether everything in a folder that tagtrace wrote is whole, and what to do where it is not."""

from tagtrace.doctor.examine import examine
from tagtrace.doctor.health import Health, Symptom

__all__ = ["Health", "Symptom", "examine"]
