"""OpenTelemetry spans as events: OTLP in both encodings, the GenAI conventions in their versions, OpenInference's attributes.

Place in the path: ``POST /v1/traces`` → ``wire`` → ``spans`` → ``genai`` or ``openinference`` → ``bodies`` → ``ingest.take``.
"""
