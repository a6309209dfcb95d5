"""A store of marks in a relational database: one set of statements, for SQLite and for PostgreSQL."""
