"""Judges: taggers that say how probable each training label is, in sample and out of sample."""
