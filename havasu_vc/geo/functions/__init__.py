"""The functions that SQL has over geometries and rasters, as functions of Arrow arrays."""
