"""Geometry bytes: codecs, bounds, equality, order along a curve, reference systems."""
