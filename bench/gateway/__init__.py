"""Measures gateways side by side: ours with recording off and on, nginx, sglang-router, LiteLLM's proxy, a plain FastAPI one.

``python -m bench.gateway [--quick] [--seconds S] [--chart FILE]``. One mock engine, one load generator, interleaved rounds: all see
the same machine. Method and results: ``docs/performance.md``.
"""
