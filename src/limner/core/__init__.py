"""The nouns and what they stand on."""
