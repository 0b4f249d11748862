"""Encoders: what turns images and texts into vectors. An encoder has `dim` and `encode(items) -> array`."""
