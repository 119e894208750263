"""Decoders of bytes from strangers, fuzzed: random and damaged bytes give a value or an error."""
