"""What the page asks of the tagger and the index: mispredictions, explanations, what-ifs."""
