"""What a user of Spark imports: read datasets as data frames, query checkouts with SQL."""
