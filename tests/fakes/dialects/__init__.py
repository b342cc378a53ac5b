"""The answers of the fake engine in SGLang's bytes: one module a dialect, each with JSON answers and event streams."""
