"""The Firehose processor that people usually write for AWS DMS records.

This is the project's own version of it, kept as it is: the benchmark's other
side. It reads each record, picks the operation and the table out of the
metadata and passes the data on. It checks no type, no key and no order.
"""
import base64
import json

DATABASE = "shop"
OPERATIONS = {"load": "insert", "insert": "insert", "update": "update", "delete": "delete"}


def lambda_handler(event, context):
    output = []
    for record in event["records"]:
        try:
            payload = json.loads(base64.b64decode(record["data"]))
            metadata = payload["metadata"]
            if metadata["record-type"] != "data":
                output.append({"recordId": record["recordId"], "result": "Dropped", "data": record["data"]})
                continue
            row = {name.lower(): value for name, value in payload["data"].items()}
            row["cdc_committed_at"] = metadata.get("commit-timestamp")
            output.append(
                {
                    "recordId": record["recordId"],
                    "result": "Ok",
                    "data": base64.b64encode(json.dumps(row).encode("utf-8")).decode("ascii"),
                    "metadata": {
                        "otfMetadata": {
                            "destinationDatabaseName": DATABASE,
                            "destinationTableName": metadata["table-name"].lower(),
                            "operation": OPERATIONS[metadata["operation"]],
                        }
                    },
                }
            )
        except (KeyError, ValueError):
            output.append({"recordId": record["recordId"], "result": "ProcessingFailed", "data": record["data"]})
    return {"records": output}
