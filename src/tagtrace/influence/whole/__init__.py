"""Influence through the whole tagger: what happens when its encoder is trained again too."""
