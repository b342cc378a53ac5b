"""Fixtures that several packages of tests share."""

pytest_plugins = ["tests.engine_fixture"]
