"""Alarms, as JSON and for Prometheus."""

from fastapi import APIRouter, Response

from dataproxy.alarms.watch import exposition, look
from dataproxy.api.answers import json_answer
from dataproxy.api.identity import Caller, ServicesDep, require, scope
from dataproxy.api.on_record import unrecorded

_OF_ALARMS = "what monitoring asks all the time: numbers, and whether an alarm fires"
router = APIRouter(prefix="/v1")


@router.get("/alarms")
@unrecorded(_OF_ALARMS)
def get_alarms(services: ServicesDep, caller: Caller) -> Response:
    """Every rule, its threshold, and whether it fires now."""
    require(caller, "reviewer", "trainer")
    with services.database.read() as connection:
        return json_answer(look(connection, scope(caller), services.now_us()))


@router.get("/metrics")
@unrecorded(_OF_ALARMS)
def get_metrics(services: ServicesDep, caller: Caller) -> Response:
    """The same as Prometheus text."""
    require(caller, "reviewer", "trainer", "gateway")
    with services.database.read() as connection:
        text = exposition(look(connection, scope(caller), services.now_us()))
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
