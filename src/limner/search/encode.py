"""Encoding of items for search, with the interface of `limner.encoders`."""

from limner.encoders.contract import Encoder, TwoSided, encoded, identity

__all__ = ["Encoder", "TwoSided", "encoded", "identity"]
