"""What holds the data proxy's role back on PostgreSQL: grants, row-level security, append-only triggers, partitions by month.

Applied by the owner after every migration to every table of the schema, and idempotent, so that a new table is never forgotten.
"""

from datetime import UTC, datetime

from sqlalchemy import Connection, Table, text

from dataproxy.store.schema import APPEND_ONLY, BLANKED, SHARED, metadata

MONTHS_AHEAD = 3
_OPERATOR = "current_setting('headrace.operator', true) = 'on'"
_OWN = "tenant = current_setting('headrace.tenant', true)"

_APPEND_ONLY_FUNCTION = """
CREATE OR REPLACE FUNCTION headrace_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation'; END $$"""

_NEXT_POSITION = """
CREATE OR REPLACE FUNCTION headrace_next_position() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
DECLARE before text := coalesce(current_setting('headrace.operator', true), ''); found bigint;
BEGIN
  PERFORM set_config('headrace.operator', 'on', true);
  SELECT coalesce(max(position), 0) + 1 INTO found FROM event;
  PERFORM set_config('headrace.operator', before, true);
  RETURN found;
END $$"""

_MAKE_PARTITIONS = """
CREATE OR REPLACE FUNCTION headrace_make_partitions(first date, months int) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
DECLARE parent name; month date; child text;
BEGIN
  FOR parent IN SELECT c.relname FROM pg_partitioned_table p JOIN pg_class c ON c.oid = p.partrelid
                WHERE c.relnamespace = 'public'::regnamespace LOOP
    IF to_regclass(format('%I', parent || '_default')) IS NULL THEN
      EXECUTE format('CREATE TABLE %I PARTITION OF %I DEFAULT', parent || '_default', parent);
    END IF;
    FOR i IN 0..months - 1 LOOP
      month := first + make_interval(months => i);
      child := parent || to_char(month, '_"y"YYYY"m"MM');
      IF to_regclass(format('%I', child)) IS NULL THEN
        EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', child, parent,
          lpad(to_hex((extract(epoch FROM month::timestamp) * 1000)::bigint), 12, '0'),
          lpad(to_hex((extract(epoch FROM (month + interval '1 month')::timestamp) * 1000)::bigint), 12, '0'));
      END IF;
    END LOOP;
  END LOOP;
  PERFORM headrace_unsampled();
EXCEPTION WHEN check_violation THEN
  RAISE WARNING 'events of that month lie in the default partition already';
END $$"""
"""An event id begins with its creation time (UUIDv7), so months are ranges of ids, and an id stays unique over all of them."""

_UNSAMPLED = """
CREATE OR REPLACE FUNCTION headrace_unsampled() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
DECLARE found record;
BEGIN
  FOR found IN SELECT a.attrelid::regclass AS held, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
               WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
                 AND a.atttypid IN ('bytea'::regtype, 'text'::regtype) AND coalesce(a.attstattarget, -1) <> 0
                 AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND a.attnum = ANY (i.indkey)) LOOP
    EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 0', found.held, found.attname);
  END LOOP;
END $$"""
"""Samples of texts, bodies and tokens would outlive their erasure in the server's statistics; nobody plans by them."""

_FUNCTIONS = {
    "headrace_append_only()": _APPEND_ONLY_FUNCTION,
    "headrace_unsampled()": _UNSAMPLED,
    "headrace_next_position()": _NEXT_POSITION,
    "headrace_make_partitions(date, int)": _MAKE_PARTITIONS,
}


def apply_rules(connection: Connection, role: str) -> None:
    """Let ``role`` do what the data proxy needs, on the tables that there are, and nothing else. ``connection`` is the owner's."""
    to = connection.dialect.identifier_preparer.quote_identifier(role)
    present = set(connection.execute(text("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace")).scalars())
    connection.execute(text(f"GRANT USAGE ON SCHEMA public TO {to}"))
    if "alembic_version" in present:
        connection.execute(text(f"GRANT SELECT ON alembic_version TO {to}"))
    tables = [table for table in metadata.sorted_tables if table.name in present]
    for signature, source in _FUNCTIONS.items() if "event" in present else ():
        connection.execute(text(source.replace(":", "\\:")))
        connection.execute(text(f"REVOKE ALL ON FUNCTION {signature} FROM PUBLIC"))
        connection.execute(text(f"GRANT EXECUTE ON FUNCTION {signature} TO {to}"))
    for table in tables:
        _grant(connection, table, to)
        _guard(connection, table, may_blank="tombstone" in present)
        _secure(connection, table)
    if tables:
        make_partitions(connection, 0)


def _grant(connection: Connection, table: Table, to: str) -> None:
    connection.execute(text(f"REVOKE ALL ON {table.name} FROM PUBLIC, {to}"))
    rights = "SELECT, INSERT" if table.name in APPEND_ONLY else "SELECT, INSERT, UPDATE, DELETE"
    connection.execute(text(f"GRANT {rights} ON {table.name} TO {to}"))
    if table.name in BLANKED:
        columns = ", ".join(BLANKED[table.name][1])
        connection.execute(text(f"GRANT UPDATE ({columns}) ON {table.name} TO {to}"))


def _guard(connection: Connection, table: Table, may_blank: bool) -> None:
    """Triggers hold back whoever has the right, the owner too."""
    for name in ("no_change", "no_truncate"):
        connection.execute(text(f"DROP TRIGGER IF EXISTS {table.name}_{name} ON {table.name}"))
    if table.name not in APPEND_ONLY:
        return
    function = "headrace_append_only"
    if table.name in BLANKED and may_blank:
        function = f"headrace_blank_{table.name}"
        connection.execute(text(_blanking(table, function)))
    each = f"BEFORE UPDATE OR DELETE ON {table.name} FOR EACH ROW EXECUTE FUNCTION {function}()"
    whole = f"BEFORE TRUNCATE ON {table.name} FOR EACH STATEMENT EXECUTE FUNCTION headrace_append_only()"
    for name, when in (("no_change", each), ("no_truncate", whole)):
        connection.execute(text(f"CREATE TRIGGER {table.name}_{name} {when}"))


def _blanking(table: Table, function: str) -> str:
    """A row with a tombstone may be blanked; nothing else changes."""
    key, blanks = BLANKED[table.name]
    kept = [f'"{column.name}"' for column in table.c if column.name not in blanks]
    values = {None: "NULL", b"": "''", "": "''"}
    blank = " AND ".join(f'NEW."{column}" IS NOT DISTINCT FROM {values[value]}' for column, value in blanks.items())
    return f"""
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND ({", ".join("NEW." + name for name in kept)}) IS NOT DISTINCT FROM
     ({", ".join("OLD." + name for name in kept)}) AND {blank} AND EXISTS (
       SELECT 1 FROM tombstone WHERE tenant = OLD.tenant AND kind = '{table.name}' AND row_key = OLD."{key}") THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION '% is append-only', '{table.name}' USING ERRCODE = 'restrict_violation';
END $$"""


def _secure(connection: Connection, table: Table) -> None:
    """The owner too: what a migration does to rows, it says that it does for everybody."""
    connection.execute(text(f"ALTER TABLE {table.name} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"))
    mine = f"{_OWN} OR {_OPERATOR}" if "tenant" in table.c else _OPERATOR
    for policy in ("own", "shared"):
        connection.execute(text(f"DROP POLICY IF EXISTS {policy} ON {table.name}"))
    connection.execute(text(f"CREATE POLICY own ON {table.name} USING ({mine}) WITH CHECK ({mine})"))
    if table.name in SHARED:
        known = "tenant = '' AND current_setting('headrace.tenant', true) IS NOT NULL"
        connection.execute(text(f"CREATE POLICY shared ON {table.name} FOR SELECT USING ({known})"))


def make_partitions(connection: Connection, done: int) -> int:
    """Have partitions for this month and those that follow; ``done`` is the month (year * 12 + month) it was last done in."""
    now = datetime.now(UTC)
    month = now.year * 12 + now.month
    if month != done and connection.execute(text("SELECT to_regproc('headrace_make_partitions') IS NOT NULL")).scalar_one():
        first = now.date().replace(day=1)
        connection.execute(text("SELECT headrace_make_partitions(:first, :months)"), {"first": first, "months": MONTHS_AHEAD})
    return month
