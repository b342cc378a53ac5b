"""The store: tables, migrations, and one function per question asked of them. Only the data proxy opens it."""
