"""Repairs of SGLang's dialects, one module each: what an agent may rightly send or expect and SGLang drops, garbles or refuses.

Each function is a hook around one of SGLang's own and acts only for a request that carries our rid header (`repairing`). Place in
the path: step 1, inside the engine's HTTP process.
"""
