"""Checks what cfn-lint and checkov do not: check.py TEMPLATE...

No policy allows an action with a star in it, and create-only.json is what
CloudFormation's own schemas say of types that hold data.
"""

import json
import pathlib
import sys

from cfnlint.decode import decode_str
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER


def statements(node):
    """Yields every statement of every policy below a node."""
    if isinstance(node, list):
        for item in node:
            yield from statements(item)
    elif isinstance(node, dict):
        if "Effect" in node and "Action" in node:
            yield node
        for value in node.values():
            yield from statements(value)


def main():
    problems = []
    checked = 0
    for path in map(pathlib.Path, sys.argv[1:]):
        body, errors = decode_str(path.read_text())
        if errors:
            problems.append(f"{path}: {errors}")
            continue
        for statement in statements(body["Resources"]):
            actions = statement["Action"]
            for action in [actions] if isinstance(actions, str) else actions:
                checked += 1
                if "*" in action and statement["Effect"] == "Allow":
                    problems.append(f"{path}: a policy allows {action}")
    ours = json.loads(pathlib.Path(__file__).parent.parent.joinpath("create-only.json").read_text())
    for kind, properties in ours.items():
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
        theirs = {p.removeprefix("/properties/") for p in schema.get("createOnlyProperties", [])}
        if kind == "AWS::KinesisFirehose::DeliveryStream":
            # Only the destination that these stacks have.
            theirs = {p for p in theirs if "DestinationConfiguration" not in p or p.startswith("Iceberg")}
        if theirs != set(properties):
            problems.append(f"create-only.json: {kind} has {sorted(properties)}, CloudFormation's schema {sorted(theirs)}")
    if problems or not checked:
        raise SystemExit("\n".join(problems) or "no policy was checked")
    print(f"{checked} actions and {len(ours)} types checked")


main()
