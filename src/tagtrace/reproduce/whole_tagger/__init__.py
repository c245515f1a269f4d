"""Experiments that train the whole tagger again: not in the paper."""
