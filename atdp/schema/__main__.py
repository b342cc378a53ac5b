"""``python -m atdp.schema``: print the JSON Schema of an event."""

import sys

from atdp.schema import text_of_schema

sys.stdout.write(text_of_schema())
