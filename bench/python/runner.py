"""Runs lambda_function.py on event files, as AWS's Python runtime does.

Whole event JSON in, whole response JSON out: the runtime client parses the
request with json.loads and renders the answer with json.dumps. It reads one
JSON request a line from the standard input and answers each with one line:

    {"events": [path, ...], "times": 3}             -> {"nanoseconds": n}
    {"events": [path, ...], "responses": [path...]} -> {}
    {"version": true}                               -> {"version": "3.13.1"}
"""
import json
import platform
import sys
import time

from lambda_function import lambda_handler


def handle(text):
    return json.dumps(lambda_handler(json.loads(text), None), ensure_ascii=False)


def answer(request):
    if "version" in request:
        return {"version": platform.python_version()}
    events = []
    for path in request["events"]:
        with open(path, encoding="utf-8") as file:
            events.append(file.read())
    if "responses" in request:
        for path, event in zip(request["responses"], events):
            with open(path, "w", encoding="utf-8") as file:
                file.write(handle(event))
        return {}
    start = time.process_time_ns()
    for _ in range(request["times"]):
        for event in events:
            handle(event)
    return {"nanoseconds": time.process_time_ns() - start}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
