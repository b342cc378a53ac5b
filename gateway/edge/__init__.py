"""The agents' side of the hot routes, at the HTTP protocol: their requests never become ASGI messages or tasks.

``protocol`` takes them from uvicorn's parser, ``agent_call`` reads one request and writes its answer, ``admit`` decides whether
it is served. What follows is the relay's.
"""
