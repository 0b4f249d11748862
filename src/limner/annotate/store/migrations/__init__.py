"""Changes of the tables of existing stores, for alembic. There is no way back: answers would be lost."""
