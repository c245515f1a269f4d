"""What the page shows of the data, the tagger and the index: findings, mispredictions, explanations, what-ifs."""
