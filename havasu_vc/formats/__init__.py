"""On-disk documents: parse and format, no reading or writing of files."""
