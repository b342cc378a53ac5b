"""Parquet by pyarrow, which is an extra; the rows are those of ``atdp.exports.parquet_rows``.

One row group for each ``GROUP`` events is all that is in memory.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from atdp.exports.parquet_rows import row_of, schema_of
from atdp.exports.types import ExportedEvent
from deploy.errors import DeployError
from deploy.exports.files import whole_file

GROUP: Final = 500


class PyarrowMissing(DeployError):
    """The extra is not installed."""


def write_parquet(path: Path, items: Iterable[ExportedEvent]) -> int:
    """Write ``items`` to ``path``; gives their number.

    Raises:
        PyarrowMissing: install the extra.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise PyarrowMissing("Parquet needs pyarrow: pip install 'headrace[parquet]'") from error
    schema = schema_of(pyarrow)
    num, rows = 0, []
    with whole_file(path) as partial, pyarrow.parquet.ParquetWriter(partial, schema, compression="zstd") as writer:
        for item in items:
            rows.append(row_of(item))
            num += 1
            if len(rows) == GROUP:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema))
                rows = []
        if rows or not num:
            writer.write_table(pyarrow.Table.from_pylist(rows, schema))
    return num
