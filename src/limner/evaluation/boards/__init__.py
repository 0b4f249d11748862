"""Leaderboards: results from many sources, ranked with intervals of ranks."""
