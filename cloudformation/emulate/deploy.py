"""Creates the stacks of a folder in an emulator of AWS (moto), and prints their outputs as JSON.

    deploy.py DIR NAME=VALUE...

What the emulator's CloudFormation takes is created as a stack. It has neither
Firehose nor Glue nor DMS there: the resources of those stacks are created
through the services' own APIs, with the properties that their templates have,
after this script has resolved the intrinsic functions. So the emulator checks
names, types and required fields of each call, but not CloudFormation itself.
"""

import json
import pathlib
import re
import sys

import boto3
from cfnlint.decode import decode_str

ACCOUNT, REGION = "123456789012", "us-east-1"


class Absent(Exception):
    """AWS::NoValue, or a resource whose condition is false."""


class Template:
    """A template with values for its parameters; attributes of resources are set as they are created."""

    def __init__(self, path, parameters):
        self.body, problems = decode_str(path.read_text())
        if problems:
            raise SystemExit(f"{path}: {problems}")
        self.parameters = {}
        for name, declared in self.body["Parameters"].items():
            value = parameters.get(name, declared.get("Default"))
            if value is None:
                raise SystemExit(f"{path}: no value for parameter {name}")
            value = str(value)
            pattern = declared.get("AllowedPattern")
            if pattern and not re.fullmatch(pattern, value):
                raise SystemExit(f"{path}: parameter {name}: {value!r} does not match {pattern}")
            self.parameters[name] = value
        self.refs, self.attributes = {}, {}

    def condition(self, name):
        return self.test(self.body["Conditions"][name])

    def test(self, node):
        kind, args = next(iter(node.items()))
        if kind == "Fn::Equals":
            return str(self.resolve(args[0])) == str(self.resolve(args[1]))
        if kind == "Fn::Not":
            return not self.test(args[0])
        if kind == "Fn::Or":
            return any(self.test(arg) for arg in args)
        if kind == "Fn::And":
            return all(self.test(arg) for arg in args)
        if kind == "Condition":
            return self.condition(args)
        raise SystemExit(f"condition {kind}: not known")

    def ref(self, name):
        pseudo = {"AWS::AccountId": ACCOUNT, "AWS::Region": REGION, "AWS::Partition": "aws"}
        if name == "AWS::NoValue":
            raise Absent()
        for values in (pseudo, self.parameters, self.refs):
            if name in values:
                return values[name]
        raise SystemExit(f"Ref {name}: not created yet")

    def attribute(self, path):
        resource, name = path if isinstance(path, list) else path.split(".", 1)
        return self.attributes[resource][name]

    def resolve(self, node):
        if isinstance(node, list):
            return [self.resolve(item) for item in node]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            kind, args = next(iter(node.items()))
            if kind == "Ref":
                return self.ref(args)
            if kind == "Fn::GetAtt":
                return self.attribute(args)
            if kind == "Fn::If":
                return self.resolve(args[1] if self.condition(args[0]) else args[2])
            if kind == "Fn::FindInMap":
                top, first, second = (self.resolve(arg) for arg in args)
                return self.body["Mappings"][top][first][second]
            if kind == "Fn::Sub":
                return re.sub(
                    r"\$\{([^!}]+)\}", lambda m: str(self.attribute(m[1]) if "." in m[1] else self.ref(m[1])), args
                ).replace("${!", "${")
            if kind.startswith("Fn::"):
                raise SystemExit(f"{kind}: not known")
        out = {}
        for key, value in node.items():
            try:
                out[key] = self.resolve(value)
            except Absent:
                pass
        return out

    def properties(self, resource):
        declared = self.body["Resources"][resource]
        if "Condition" in declared and not self.condition(declared["Condition"]):
            raise Absent()
        return self.resolve(declared["Properties"])

    def set(self, resource, ref, **attributes):
        self.refs[resource], self.attributes[resource] = ref, attributes

    def outputs(self):
        out = {}
        for name, output in self.body["Outputs"].items():
            out[name] = self.resolve(output["Value"])
        return out


def native(directory, name, template, parameters):
    """Creates a stack by the emulator's CloudFormation."""
    body = (directory / template).read_text()
    declared = decode_str(body)[0]["Parameters"]
    client = boto3.client("cloudformation")
    client.create_stack(
        StackName=name,
        TemplateBody=body,
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[{"ParameterKey": k, "ParameterValue": str(parameters[k])} for k in declared if k in parameters],
    )
    stack = client.describe_stacks(StackName=name)["Stacks"][0]
    if stack["StackStatus"] != "CREATE_COMPLETE":
        raise SystemExit(f"{name}: {stack['StackStatus']}")
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}


def role(t, resource):
    properties = t.properties(resource)
    made = boto3.client("iam").create_role(
        RoleName=f"{t.parameters['Name']}-{t.parameters.get('Role', 'dms')}-{resource}",
        AssumeRolePolicyDocument=json.dumps(properties["AssumeRolePolicyDocument"], default=str),
    )["Role"]
    t.set(resource, made["RoleName"], Arn=made["Arn"])
    for policy in properties.get("Policies", []):
        boto3.client("iam").put_role_policy(
            RoleName=made["RoleName"], PolicyName=policy["PolicyName"], PolicyDocument=json.dumps(policy["PolicyDocument"], default=str)
        )


def log_group(t, resource):
    properties = t.properties(resource)
    logs = boto3.client("logs")
    logs.create_log_group(logGroupName=properties["LogGroupName"], kmsKeyId=properties["KmsKeyId"])
    logs.put_retention_policy(logGroupName=properties["LogGroupName"], retentionInDays=int(properties["RetentionInDays"]))
    t.set(resource, properties["LogGroupName"], Arn=f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{properties['LogGroupName']}:*")


def log_stream(t, resource):
    properties = t.properties(resource)
    boto3.client("logs").create_log_stream(logGroupName=properties["LogGroupName"], logStreamName=properties["LogStreamName"])
    t.set(resource, properties["LogStreamName"])


def bucket(t, resource):
    name = t.properties(resource)["BucketName"]
    boto3.client("s3").create_bucket(Bucket=name)
    t.set(resource, name, Arn=f"arn:aws:s3:::{name}")


def function(t, resource, name):
    """A Lambda function; returns its environment."""
    p = t.properties(resource)
    made = boto3.client("lambda").create_function(
        FunctionName=name, Runtime=p["Runtime"], Handler=p["Handler"], Role=p["Role"], Code=p["Code"], Architectures=p["Architectures"],
        MemorySize=int(p["MemorySize"]), Timeout=int(p["Timeout"]), Environment=p["Environment"], KMSKeyArn=p["KmsKeyArn"],
    )
    t.set(resource, made["FunctionName"], Arn=made["FunctionArn"])
    return p["Environment"]["Variables"]


def integers(node, names):
    """CloudFormation takes numbers as text; the APIs do not."""
    if isinstance(node, dict):
        return {k: int(v) if k in names else integers(v, names) for k, v in node.items()}
    if isinstance(node, list):
        return [integers(item, names) for item in node]
    return node


def rename(node, names):
    """A few properties are spelt otherwise in the API."""
    if isinstance(node, dict):
        return {names.get(k, k): rename(v, names) for k, v in node.items()}
    if isinstance(node, list):
        return [rename(item, names) for item in node]
    return node


def delivery(directory, template, parameters):
    t = Template(directory / template, parameters)
    for group in ("TransformLog", "DeliveryLog"):
        log_group(t, group)
    for stream in ("DeliveryLogStream", "ErrorLogStream"):
        log_stream(t, stream)
    bucket(t, "ErrorBucket")
    role(t, "TransformRole")
    environment = function(t, "Transform", f"{t.parameters['Name']}-{t.parameters['Role']}-transform")
    role(t, "DeliveryRole")
    policy = t.properties("DeliveryPolicy")
    boto3.client("iam").put_role_policy(
        RoleName=policy["RoleName"], PolicyName=policy["PolicyName"], PolicyDocument=json.dumps(policy["PolicyDocument"], default=str)
    )
    p = rename(t.properties("Delivery"), {"CatalogArn": "CatalogARN", "s3BackupMode": "S3BackupMode"})
    p = integers(p, {"IntervalInSeconds", "SizeInMBs", "DurationInSeconds"})
    iceberg = p["IcebergDestinationConfiguration"]
    iceberg["AppendOnly"] = str(iceberg["AppendOnly"]).lower() == "true"
    made = boto3.client("firehose").create_delivery_stream(**p)
    t.set("Delivery", p["DeliveryStreamName"], Arn=made["DeliveryStreamARN"])
    return {**t.outputs(), "Environment": environment}


def migration(directory, parameters):
    t = Template(directory / "migration.yaml", parameters)
    dms = boto3.client("dms")
    role(t, "SecretRole")
    role(t, "StreamRole")
    spelt = {"PostgreSqlSettings": "PostgreSQLSettings", "MySqlSettings": "MySQLSettings"}
    for endpoint in ("Source", "Target"):
        made = dms.create_endpoint(**rename(t.properties(endpoint), spelt))["Endpoint"]
        t.set(endpoint, made["EndpointArn"])
    t.set("SecurityGroup", "sg-1")
    t.set("SubnetGroup", "group")
    log_group(t, "InstanceLog")
    p = t.properties("ReplicationInstance")
    flags = {"MultiAZ", "AutoMinorVersionUpgrade", "PubliclyAccessible"}
    p = {k: str(v).lower() == "true" if k in flags else v for k, v in p.items() if k not in ("AllowMajorVersionUpgrade", "ReplicationSubnetGroupIdentifier")}
    made = dms.create_replication_instance(**{**p, "AllocatedStorage": int(p["AllocatedStorage"])})["ReplicationInstance"]
    t.set("ReplicationInstance", made["ReplicationInstanceArn"])
    p = t.properties("Task")
    json.loads(p["TableMappings"]), json.loads(p["ReplicationTaskSettings"])
    made = dms.create_replication_task(**p)["ReplicationTask"]
    t.set("Task", made["ReplicationTaskArn"])
    return t.outputs()


def reconcile(directory, parameters):
    t = Template(directory / "reconcile.yaml", parameters)
    bucket(t, "Bucket")
    p = t.properties("Topic")
    made = boto3.client("sns").create_topic(Name=p["TopicName"], Attributes={"KmsMasterKeyId": p["KmsMasterKeyId"]})
    t.set("Topic", made["TopicArn"])
    log_group(t, "Log")
    t.set("SecurityGroup", "sg-1")
    role(t, "ReconcileRole")
    environment = function(t, "Reconcile", f"{t.parameters['Name']}-reconcile")
    role(t, "ScheduleRole")
    schedule = t.properties("Runs")
    boto3.client("scheduler").create_schedule(**schedule)
    return {**t.outputs(), "Environment": environment, "Event": schedule["Target"]["Input"]}


def maintenance(directory, parameters):
    t = Template(directory / "maintenance.yaml", parameters)
    role(t, "OptimizerRole")
    bucket(t, "QueryBucket")
    p = t.properties("WorkGroup")
    boto3.client("athena").create_work_group(Name=p["Name"], Description=p["Description"], Configuration={
        "ResultConfiguration": p["WorkGroupConfiguration"]["ResultConfiguration"],
        "EnforceWorkGroupConfiguration": str(p["WorkGroupConfiguration"]["EnforceWorkGroupConfiguration"]).lower() == "true",
    })
    t.set("WorkGroup", p["Name"])
    return t.outputs()


def merge(directory, parameters):
    t = Template(directory / "merge.yaml", parameters)
    t.parameters["Role"] = "merge"  # in the names of its roles
    log_group(t, "Log")
    role(t, "MergeRole")
    environment = function(t, "Merge", f"{t.parameters['Name']}-merge")
    role(t, "ScheduleRole")
    schedule = t.properties("Runs")
    boto3.client("scheduler").create_schedule(**schedule)
    p = t.properties("MergeErrors")
    boto3.client("cloudwatch").put_metric_alarm(AlarmName=f"{t.parameters['Name']}-merge-errors", **integers(p, {"Period", "EvaluationPeriods", "Threshold"}))
    return {**t.outputs(), "Environment": environment, "Event": schedule["Target"]["Input"]}


def main():
    directory = pathlib.Path(sys.argv[1])
    parameters = dict(argument.split("=", 1) for argument in sys.argv[2:])
    name = parameters["Name"]
    out = {}
    out["stream"] = native(directory, f"{name}-stream", "stream.yaml", parameters)
    parameters |= {"SourceStreamArn": out["stream"]["StreamArn"], **out["stream"]}
    out["tables"] = native(directory, f"{name}-tables", "tables.yaml", parameters)
    # The emulator names a bucket after its logical id here and there: believe it.
    parameters["LakeBucket"] = out["tables"]["Bucket"]
    out["observability"] = native(directory, f"{name}-observability", "observability.yaml", parameters)
    parameters |= out["observability"]
    for path in sorted(directory.glob("delivery-*.yaml")):
        kind = path.stem.removeprefix("delivery-")
        if kind == "alarms":
            continue
        out[kind] = delivery(directory, path.name, {**parameters, "Role": kind})
        native(directory, f"{name}-{kind}-alarms", "delivery-alarms.yaml", {**parameters, **out[kind]})
    out["migration"] = migration(directory, parameters)
    out["reconcile"] = reconcile(directory, parameters)
    out["maintenance"] = maintenance(directory, parameters)
    if (directory / "merge.yaml").exists():
        out["merge"] = merge(directory, {**parameters, **out["maintenance"]})
    json.dump(out, sys.stdout, default=str)


main()
