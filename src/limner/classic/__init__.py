"""The classical systems of the ranking paper: nearest neighbour and KCCA with kernels of images and of texts.

Hodosh, Young & Hockenmaier 2013, Framing image description as a ranking task.
"""
