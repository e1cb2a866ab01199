"""Starts the emulator (moto) on 127.0.0.1: serve.py PORT.

It mends one thing: moto writes the times of a DMS task as text, where the
protocol has seconds, which AWS's SDK for Go refuses.
"""

import datetime
import sys

from moto.dms import models
from moto.server import main

_DATES = ("ReplicationTaskCreationDate", "ReplicationTaskStartDate", "FreshStartDate", "StartDate", "StopDate", "FullLoadStartDate", "FullLoadFinishDate")
_to_dict = models.FakeReplicationTask.to_dict


def _seconds(node):
    if not isinstance(node, dict):
        return node
    return {
        key: datetime.datetime.fromisoformat(value).timestamp() if key in _DATES and value else _seconds(value)
        for key, value in node.items()
    }


models.FakeReplicationTask.to_dict = lambda self: _seconds(_to_dict(self))
main(["-H", "127.0.0.1", "-p", sys.argv[1]])
