"""The web pages: search, inspect failures, judge pairs; one process, no external resources."""

from limner.web.serving import PORT, STORE, SYSTEMS, Address, make_app, serve

__all__ = ["PORT", "STORE", "SYSTEMS", "Address", "make_app", "serve"]
