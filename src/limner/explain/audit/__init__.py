"""audit: finds defects in a collection before anything is measured on it.

Duplicates, leakage between splits, repeated captions, labels that belong to other items, images that do not open,
captions in another language, negatives that can be told without the image, and measures on which random answers score
well. Every finding has a severity and
examples. An audit also returns repaired judgements, with the pairs that follow from duplicates, and a list of items to
leave out.
"""

from limner.explain.audit.audit_run import Audit, audit
from limner.explain.audit.findings import KINDS, Defect

__all__ = ["KINDS", "Audit", "Defect", "audit"]
