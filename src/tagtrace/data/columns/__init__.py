"""The columns of CoNLL files: how lines are split, which column holds what, and what is doubtful about a guess."""
