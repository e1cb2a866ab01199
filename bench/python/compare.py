"""Compares two responses to one event: python3 compare.py EVENT THEIRS OURS.

THEIRS is what lambda_function.py answered, OURS what icehose did. Record ids,
their order, results, routing and every value that THEIRS has must be equal.
Numbers are compared as exact decimals, also where one side has them in a
string; times with or without their Z; blanks at the end of a text do not
count, since a char column's are dropped. Of a delete, the key and the time
count: the rest of its row means nothing.
"""
import base64
import json
import re
import sys
from decimal import Decimal

NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6})Z?")
KEYS = {"order_line": ("ol_w_id", "ol_d_id", "ol_o_id", "ol_number"), "article": ("id",)}


def load(text):
    return json.loads(text, parse_float=Decimal, parse_int=int)


def value(v):
    if isinstance(v, bool) or v is None:
        return v
    if isinstance(v, (int, Decimal)):
        return Decimal(v)
    if NUMBER.fullmatch(v):
        return Decimal(v)
    if match := TIME.fullmatch(v):
        return match[1]
    return v.rstrip(" ")


def main(event_path, theirs_path, ours_path):
    answers = []
    for path in (event_path, theirs_path, ours_path):
        with open(path, encoding="utf-8") as file:
            answers.append(load(file.read())["records"])
    event, theirs, ours = answers
    if not len(event) == len(theirs) == len(ours):
        sys.exit(f"{len(event)} records, {len(theirs)} and {len(ours)} answers")
    values = 0
    for record, their, our in zip(event, theirs, ours):
        where = record["recordId"]
        for part in ("recordId", "result", "metadata"):
            if their.get(part) != our.get(part):
                sys.exit(f"{where}: {part}: {their.get(part)} and {our.get(part)}")
        if our["recordId"] != where:
            sys.exit(f"{where}: answered as {our['recordId']}")
        if our["result"] != "Ok":
            if our["data"] != record["data"] or their["data"] != record["data"]:
                sys.exit(f"{where}: not given back as it came")
            continue
        row, expected = load(base64.b64decode(our["data"])), load(base64.b64decode(their["data"]))
        routing = our["metadata"]["otfMetadata"]
        names = expected.keys()
        if routing["operation"] == "delete":
            names = KEYS[routing["destinationTableName"]] + ("cdc_committed_at",)
        for name in names:
            values += 1
            if name not in row or value(row[name]) != value(expected[name]):
                sys.exit(f"{where}: column {name}: {expected[name]!r} and {row.get(name)!r}")
    print(f"{len(ours)} answers and {values} values are equal")


main(*sys.argv[1:])
