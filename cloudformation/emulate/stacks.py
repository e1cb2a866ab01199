"""Starts an emulator of AWS that creates whole stacks (ministack) on 127.0.0.1: stacks.py PORT.

Ministack has CloudFormation with nested stacks, change sets, stack policies and
retained resources, and most services of these stacks. What it lacks is added
here: DMS, with the states of a task as its API documents them, and
CloudFormation's types for it; change sets of nested stacks, and of resources
whose condition changes; role policies; and table optimizers, which are only
kept. A delivery stream whose tables with unique keys do not exist is refused.
"""

import asyncio
import copy
import json
import os
import re
import sys
import urllib.parse

from hypercorn.asyncio import serve
from hypercorn.config import Config
from ministack.app import app as ministack
from ministack.services import firehose, glue, iam
from ministack.services import cloudformation
from ministack.services.cloudformation import changesets, engine, helpers, provisioners
from ministack.services.cloudformation import handlers as actions

ACCOUNT, REGION = os.environ.get("MINISTACK_ACCOUNT_ID", "000000000000"), os.environ.get("MINISTACK_REGION", "us-east-1")


class Fault(Exception):
    """An error of the DMS API: its code and what it says."""


def arn(kind, name):
    return f"arn:aws:dms:{REGION}:{ACCOUNT}:{kind}:{name.upper().replace('-', '')}"


class DMS:
    """The control plane of DMS, as far as the stacks and deploy.sh use it."""

    def __init__(self):
        self.tasks, self.endpoints, self.instances, self.connections, self.calls = {}, {}, {}, {}, []

    # What CloudFormation calls.

    def make_task(self, properties):
        """Makes a task of an instance, or a replication of DMS Serverless."""
        serverless = "ReplicationConfigIdentifier" in properties
        for of, key in ((self.endpoints, "SourceEndpointArn"), (self.endpoints, "TargetEndpointArn"), (self.instances, "ReplicationInstanceArn")):
            if properties.get(key) not in of and not (serverless and of is self.instances):
                raise ValueError(f"{key}: there is none")
        kind, name = ("replication-config", "ReplicationConfig") if serverless else ("task", "ReplicationTask")
        key = arn(kind, properties[f"{name}Identifier"])
        self.tasks[key] = {**properties, f"{name}Arn": key, "Status": "created" if serverless else "ready"}
        return key, {}

    def change_task(self, key, properties):
        task = self.tasks[key]
        if task["Status"] in ("starting", "running", "stopping"):
            raise ValueError(f"InvalidResourceStateFault: the task is {task['Status']} and cannot be modified")
        json.loads(properties["TableMappings"]), json.loads(properties.get("ReplicationTaskSettings") or properties["ReplicationSettings"])
        self.calls.append("ModifyReplicationTask")
        task.update(properties)
        return key, {}

    # The API.

    def find(self, request):
        try:
            return self.tasks[request.get("ReplicationTaskArn") or request.get("ReplicationConfigArn")]
        except KeyError:
            raise Fault("ResourceNotFoundFault", "no such task") from None

    def describe(self, request, name, fields):
        found = [t for t in self.tasks.values() if name in t and all(t.get(fields[f["Name"]]) in f["Values"] for f in request.get("Filters", []))]
        if not found:
            raise Fault("ResourceNotFoundFault", "no such task")
        seen = [dict(t) for t in found]
        for task in found:  # a state lasts until it was seen
            task["Status"] = {"starting": "running", "stopping": "stopped"}.get(task["Status"], task["Status"])
        return seen

    def DescribeReplicationTasks(self, request):
        fields = {"replication-task-arn": "ReplicationTaskArn", "replication-task-id": "ReplicationTaskIdentifier"}
        return {"ReplicationTasks": self.describe(request, "ReplicationTaskArn", fields)}

    def DescribeReplications(self, request):
        fields = {"replication-config-arn": "ReplicationConfigArn", "replication-config-id": "ReplicationConfigIdentifier"}
        return {"Replications": self.describe(request, "ReplicationConfigArn", fields)}

    def TestConnection(self, request):
        key = (request["ReplicationInstanceArn"], request["EndpointArn"])
        self.connections[key] = "successful"
        return {"Connection": self.connection(key, "testing")}

    @staticmethod
    def connection(key, status):
        return {"ReplicationInstanceArn": key[0], "EndpointArn": key[1], "Status": status}

    def DescribeConnections(self, request):
        wanted = {f["Name"]: f["Values"] for f in request.get("Filters", [])}
        return {"Connections": [self.connection(k, s) for k, s in self.connections.items()
                                if k[0] in wanted.get("replication-instance-arn", k) and k[1] in wanted.get("endpoint-arn", k)]}

    def start(self, task, kind):
        allowed = {"start-replication": ["ready", "created"], "resume-processing": ["stopped", "failed"]}[kind]
        if task["Status"] not in allowed:
            raise Fault("InvalidParameterCombinationException", f"{kind} of a task that is {task['Status']}")
        task["Status"] = "starting"

    def StartReplicationTask(self, request):
        task = self.find(request)
        for endpoint in (task["SourceEndpointArn"], task["TargetEndpointArn"]):
            if self.connections.get((task["ReplicationInstanceArn"], endpoint)) != "successful":
                raise Fault("InvalidResourceStateFault", "the connections of the task must be tested first")
        self.start(task, request["StartReplicationTaskType"])
        return {"ReplicationTask": dict(task)}

    def StartReplication(self, request):
        self.start(self.find(request), request["StartReplicationType"])
        return {"Replication": dict(self.find(request))}

    def stop(self, request):
        task = self.find(request)
        if task["Status"] != "running":
            raise Fault("InvalidResourceStateFault", f"the task is {task['Status']}")
        task["Status"] = "stopping"
        return dict(task)

    def StopReplicationTask(self, request):
        return {"ReplicationTask": self.stop(request)}

    def StopReplication(self, request):
        return {"Replication": self.stop(request)}

    def ModifyEndpoint(self, request):
        try:
            endpoint = self.endpoints[request["EndpointArn"]]
        except KeyError:
            raise Fault("ResourceNotFoundFault", "no such endpoint") from None
        settings = endpoint.setdefault("KinesisSettings", {})
        settings.update(request.get("KinesisSettings", {}))
        return {"Endpoint": {"EndpointArn": request["EndpointArn"], "KinesisSettings": settings}}

    def answer(self, operation, request):
        """Answers a call of the API, and lists those that change something."""
        handler = getattr(self, operation, None)
        if handler is None:
            raise Fault("UnknownOperationException", operation)
        if not operation.startswith("Describe"):
            self.calls.append(" ".join([operation, *(v for k, v in request.items() if k.startswith("Start"))]))
        return handler(request)

    async def __call__(self, operation, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        try:
            status, out = 200, self.calls if operation == "Calls" else self.answer(operation, json.loads(body or b"{}"))
        except Fault as fault:
            status, out = 400, {"__type": fault.args[0], "message": fault.args[1]}
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/x-amz-json-1.1")]})
        await send({"type": "http.response.body", "body": json.dumps(out, default=str).encode()})


dms = DMS()


def kept(kind, name, into, check=lambda properties: None):
    """A type of which the properties are kept; its Ref is an ARN."""
    def keep(key, properties):
        check(properties)
        into.setdefault(key, {}).update(properties)
        return key, {}

    return {
        "create": lambda logical, properties, stack: keep(arn(kind, properties[name]), properties),
        "update": lambda key, old, properties, stack: keep(key, properties),
        "delete": lambda key, properties: into.pop(key, None),
    }


def engine_version(properties):
    if properties["EngineVersion"] not in ("3.5.4", "3.6.1"):
        raise ValueError(f"No replication engine found with version: {properties['EngineVersion']}")


def put_role_policy(properties):
    status, _, body = iam._put_role_policy({k: [v if isinstance(v, str) else json.dumps(v)] for k, v in properties.items()})
    if status >= 400:
        raise ValueError(body)
    return f"{properties['RoleName']}:{properties['PolicyName']}", {}


def delete_role_policy(key, properties):
    role, _, name = key.partition(":")
    iam._roles.get(role, {}).get("InlinePolicies", {}).pop(name, None)


def delivery(made):
    """Looks for the tables of a delivery stream before it is made or changed."""
    def check(properties):
        iceberg = properties["IcebergDestinationConfiguration"]
        for t in iceberg.get("DestinationTableConfigurationList", []):
            name = f"{t['DestinationDatabaseName']}/{t['DestinationTableName']}"
            if "UniqueKeys" in t and name not in glue._tables:
                raise ValueError(f"Role is not authorized to perform: glue:GetTable for the given table or the table does not exist: {name}")
    return {
        "create": lambda logical, properties, stack: (check(properties), made["create"](logical, properties, stack))[1],
        "update": lambda key, old, properties, stack: (check(properties), made["update"](key, old, properties, stack))[1],
        "delete": made["delete"],
    }


def optimizer(logical, properties, stack):
    return f"{properties['CatalogId']}|{properties['DatabaseName']}|{properties['TableName']}|{properties['Type']}", {}


task = {
    "create": lambda logical, properties, stack: dms.make_task(properties),
    "update": lambda key, old, properties, stack: dms.change_task(key, properties),
    "delete": lambda key, properties: dms.tasks.pop(key, None),
}
kinds = provisioners._RESOURCE_HANDLERS
kinds |= {
    "AWS::DMS::Endpoint": kept("endpoint", "EndpointIdentifier", dms.endpoints),
    "AWS::DMS::ReplicationInstance": kept("rep", "ReplicationInstanceIdentifier", dms.instances, engine_version),
    "AWS::DMS::ReplicationSubnetGroup": kept("subgrp", "ReplicationSubnetGroupIdentifier", {}),
    "AWS::DMS::ReplicationTask": task,
    "AWS::DMS::ReplicationConfig": task,
    "AWS::Glue::TableOptimizer": {"create": optimizer, "update": lambda key, old, new, stack: (key, {}), "delete": lambda key, properties: None},
    "AWS::IAM::RolePolicy": {
        "create": lambda logical, properties, stack: put_role_policy(properties),
        "update": lambda key, old, properties, stack: put_role_policy(properties),
        "delete": delete_role_policy,
    },
    "AWS::KinesisFirehose::DeliveryStream": delivery(kinds["AWS::KinesisFirehose::DeliveryStream"]),
}

_delete_nested = kinds["AWS::CloudFormation::Stack"]["delete"]


def delete_nested(key, properties):
    """Keeps what a nested stack retains when its parent is deleted."""
    stack = cloudformation._stacks.get(provisioners._nested_stack_lookup_name(key))
    if stack and cloudformation._stacks[stack["_parent_stack_name"]]["StackStatus"] == "DELETE_IN_PROGRESS":
        for name, resource in stack["_template"]["Resources"].items():
            if str(resource.get("DeletionPolicy", "")).startswith("Retain"):
                stack["_resources"].pop(name, None)
    _delete_nested(key, properties)


kinds["AWS::CloudFormation::Stack"]["delete"] = delete_nested
_document = helpers._resolve_document


def document(parameters, body, url, label):
    """Takes an object's address with the bucket in the host, too."""
    address = urllib.parse.urlparse(helpers._p(parameters, url) or "")
    bucket, found, _ = address.netloc.partition(".s3.")
    if found:
        parameters = {**parameters, url: [f"https://s3.amazonaws.com/{bucket}{address.path}"]}
    return _document(parameters, body, url, label)


helpers._resolve_document = document
_resolved, _create, _describe = changesets._resolve_props_for_diff, changesets._create_change_set, changesets._describe_change_set
_update = provisioners._update_resource


def resolved(template, parameters, *rest):
    """Leaves out what a condition leaves out, so that it is added and removed with it."""
    out = _resolved(template, parameters, *rest)
    conditions = engine._evaluate_conditions(template, parameters) if template else {}
    if out:
        out["Resources"] = {k: r for k, r in out["Resources"].items() if conditions.get(r.get("Condition"), True)}
    return out


def create_change_set(parameters):
    """Makes change sets of the nested stacks that change, too."""
    answer = _create(parameters)
    found = re.search(r"<Id>(.*?)</Id>", answer[2] if isinstance(answer[2], str) else answer[2].decode())
    if not found or helpers._p(parameters, "IncludeNestedStacks") != "true":
        return answer
    made = cloudformation._change_sets[found[1]]
    stack = cloudformation._stacks[made["StackName"]]
    values = made["_resolved_params"]
    conditions = engine._evaluate_conditions(made["_template"], values)
    for change in made["Changes"]:
        change = change["ResourceChange"]
        nested = stack["_resources"].get(change["LogicalResourceId"])
        if change["ResourceType"] != "AWS::CloudFormation::Stack" or change["Action"] != "Modify" or not nested:
            continue
        properties = engine._resolve_refs(
            copy.deepcopy(made["_template"]["Resources"][change["LogicalResourceId"]]["Properties"]), stack["_resources"], values, conditions,
            made["_template"].get("Mappings", {}), made["StackName"], stack["StackId"])
        child = {"StackName": [nested["PhysicalResourceId"]], "ChangeSetName": [made["ChangeSetName"] + "-nested"], "TemplateURL": [properties["TemplateURL"]],
                 "Capabilities.member.1": ["CAPABILITY_IAM"]}
        for i, (key, value) in enumerate(properties.get("Parameters", {}).items(), 1):
            child |= {f"Parameters.member.{i}.ParameterKey": [key], f"Parameters.member.{i}.ParameterValue": [str(value)]}
        inner = create_change_set(child)[2]
        change["ChangeSetId"] = re.search(r"<Id>(.*?)</Id>", inner if isinstance(inner, str) else inner.decode())[1]
    return answer


def describe_change_set(parameters):
    """Says which change set a nested stack has."""
    status, headers, body = _describe(parameters)
    _, made = changesets._find_change_set(helpers._p(parameters, "ChangeSetName"), helpers._p(parameters, "StackName"))
    text = body if isinstance(body, str) else body.decode()
    for change in (c["ResourceChange"] for c in (made or {}).get("Changes", [])):
        if "ChangeSetId" in change:
            here = f"<LogicalResourceId>{change['LogicalResourceId']}</LogicalResourceId>"
            text = text.replace(here, f"{here}<ChangeSetId>{change['ChangeSetId']}</ChangeSetId>")
    return status, headers, text.encode()


def update_resource(kind, key, old, new, stack, logical=None, attributes=None):
    """Keeps the attributes of a nested stack's resource that does not change."""
    if attributes is None:
        attributes = cloudformation._stacks[stack]["_resources"].get(logical, {}).get("Attributes")
    return _update(kind, key, old, new, stack, logical, attributes)


provisioners._update_resource = update_resource
changesets._resolve_props_for_diff = resolved
actions._ACTION_HANDLERS |= {"CreateChangeSet": create_change_set, "DescribeChangeSet": describe_change_set}


async def app(scope, receive, send):
    if scope["type"] == "http":
        target = dict(scope["headers"]).get(b"x-amz-target", b"").decode()
        service, _, operation = target.partition(".")
        if service == "AmazonDMSv20160101":
            await dms(operation, receive, send)
            return
    await ministack(scope, receive, send)


config = Config()
config.bind = [f"127.0.0.1:{sys.argv[1]}"]
asyncio.run(serve(app, config))
