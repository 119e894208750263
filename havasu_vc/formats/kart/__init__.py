"""Kart's Table Datasets V3: schema, legends, paths and features, parsed and formatted.

    <path>/.table-dataset/meta/          title, description, schema.json, crs/<id>.wkt,
                                         legend/<hash>, path-structure.json, and others
    <path>/.table-dataset/feature/A/A/A/B/kU0=     one message per row

What is written is what Kart writes, byte for byte; what is read may also be what the
published page says where Kart differs from it.
"""
