"""``python -m dataproxy.redact.at_rest DATA_DIR --values FILE``: search, print what was found where, exit 0 only if all is well."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from dataproxy.redact.at_rest.search import AtRest, search_at_rest
from dataproxy.redact.tokens import TokenBytes


def main() -> int:
    """0: controls found and no value; 1: a value lies there; 2: a control was missed, so the search proves nothing."""
    parser = argparse.ArgumentParser(prog="python -m dataproxy.redact.at_rest", description="Search data at rest for values.")
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--values", type=Path, required=True, help="one value a line, or a JSON list")
    parser.add_argument("--config-dir", type=Path, help="searched as well")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json, to read arrays of token ids")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    tokens = TokenBytes.from_file(arguments.tokenizer) if arguments.tokenizer else None
    result = search_at_rest(arguments.data_dir, arguments.config_dir, _values(arguments.values), tokens)
    print(json.dumps(_summary(result)) if arguments.json else _report(result))
    if not result.planted_found:
        return 2
    return 1 if result.found else 0


def _values(path: Path) -> list[str]:
    text = path.read_text()
    values = json.loads(text) if text.lstrip().startswith("[") else text.splitlines()
    return [value for value in values if value.strip()]


def _summary(result: AtRest) -> dict[str, object]:
    return {**asdict(result), "found": len(result.found), "where": result.found, "planted_found": result.planted_found}


def _report(result: AtRest) -> str:
    lines = [f"value {index} in {place}, read as {how}, written as {form}" for index, place, how, form in result.found]
    lines += [f"control missed: {place}" for place in result.missed]
    lines.append(
        f"{result.num_values} values, {result.num_files} files, {result.num_columns} columns, {result.num_bytes / 1e6:.1f} MB: "
        f"{len(result.found)} found; {result.planted - len(result.missed)} of {result.planted} controls found"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
