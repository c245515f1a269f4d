"""Where values stand in the text of a file, so that one can be changed and the rest kept."""
