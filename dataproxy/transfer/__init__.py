"""A tenant as one file, to carry it to another store, on the other database too. docs/operations.md describes the file."""
