"""Encoding of items for search, by the contract of `limner.encoders`."""

from limner.encoders.contract import Encoder, TwoSided, encoded, identity

__all__ = ["Encoder", "TwoSided", "encoded", "identity"]
