"""Teaching: what a person's decisions say about the findings that nobody has decided on."""
