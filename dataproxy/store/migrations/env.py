"""Runs the migrations on the connection that ``Database`` opened, inside its transaction."""

from alembic import context

from dataproxy.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
