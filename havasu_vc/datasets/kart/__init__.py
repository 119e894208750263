"""Kart's datasets: one git blob per row, read and written in batches.

`view` is the dataset; `trees` walks the folders that features stand in and `writing` changes
them, `reading` gets at very many blobs, `kernels` are what tasks run.
"""
