#!/usr/bin/env bash
# Deploys the stacks of a pipeline file with the AWS CLI, step by step as
# README.md has them: make deploy ENV=dev.
#
#   deploy.sh deploy ENV    generate, check, upload, show the change set, apply it
#   deploy.sh start ENV     start the DMS task, or resume it
#   deploy.sh stop ENV      stop it
#   deploy.sh outputs ENV   print the outputs of the stack
#
# Variables: PIPELINE (pipeline.yaml), STACKS (stacks: what icehose stack generate
# wrote; keep it under version control), GENERATE (more flags for it), HISTORY (a
# suffix, as its --history), ENVDIR (cloudformation/env), DIST (dist), ICEHOSE
# (bin/icehose), AWS (aws), YES=1 (do not ask).
set -euo pipefail

PIPELINE=${PIPELINE:-pipeline.yaml}
STACKS=${STACKS:-stacks}
GENERATE=${GENERATE:-}
HISTORY=${HISTORY:-}
ENVDIR=${ENVDIR:-$(dirname "$0")/env}
DIST=${DIST:-dist}
ICEHOSE=${ICEHOSE:-bin/icehose}
AWS=${AWS:-aws}
PREFIX=icehose

fail() { echo "deploy: $*" >&2; exit 2; }
say() { printf '\n== %s\n' "$*"; }
digest() { sha256sum "$1" | cut -c 1-16; }

[ $# -eq 2 ] || fail "want deploy, start, stop or outputs, and the name of an environment"
command=$1 environment=$2
[ -f "$ENVDIR/$environment.yaml" ] || fail "no $ENVDIR/$environment.yaml"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# parameters prints the parameters for a stage, checked against the template.
parameters() {
	local stage=$1
	shift
	"$ICEHOSE" stack parameters --template "$STACKS/main.yaml" "$ENVDIR/common.yaml" "$ENVDIR/$environment.yaml" \
		--set Stage="$stage" --set TransformKey="$transform" --set ReconcileKey="$reconcile" --set PipelineKey="$pipeline" "$@"
}

# A new name for each content: a function changes over when its stack does, and
# not before.
transform=none.zip reconcile=none.zip pipeline=none.yaml
if [ "$command" = deploy ]; then
	[ -f "$DIST/transform-lambda-arm64.zip" ] || fail "no $DIST/transform-lambda-arm64.zip: run make package"
	transform=$PREFIX/transform-lambda-arm64-$(digest "$DIST/transform-lambda-arm64.zip").zip
	if [ -f "$DIST/reconcile-lambda-arm64.zip" ]; then
		reconcile=$PREFIX/reconcile-lambda-arm64-$(digest "$DIST/reconcile-lambda-arm64.zip").zip
	fi
	pipeline=$PREFIX/pipeline-$(digest "$PIPELINE").yaml
	say "templates of $PIPELINE in $STACKS"
	# shellcheck disable=SC2086 # flags
	"$ICEHOSE" stack generate --pipeline "$PIPELINE" --out "$STACKS" ${HISTORY:+--history "$HISTORY"} $GENERATE
fi
name=$(parameters all --get Name)
bucket=$(parameters all --get ArtifactBucket)
stack=icehose-$name
task=$name-task

exists() { "$AWS" cloudformation describe-stacks --stack-name "$stack" >"$work/stack" 2>"$work/error" || { grep -q 'does not exist' "$work/error" || { cat "$work/error" >&2; exit 2; }; return 1; }; }
output() { "$AWS" cloudformation describe-stacks --stack-name "$stack" --query "Stacks[0].Outputs[?OutputKey=='$1'].OutputValue" --output text; }
task_status() { "$AWS" dms describe-replication-tasks --filters "Name=replication-task-id,Values=$task" --query 'ReplicationTasks[0].Status' --output text 2>/dev/null || true; }

# show prints a change set, and those of its nested stacks.
show() {
	local nested
	"$AWS" cloudformation describe-change-set --change-set-name "$1" --output table \
		--query 'Changes[].ResourceChange.{Action:Action,Replacement:Replacement,Type:ResourceType,Resource:LogicalResourceId}'
	for nested in $("$AWS" cloudformation describe-change-set --change-set-name "$1" --output text --query 'Changes[].ResourceChange.ChangeSetId'); do
		if [ "$nested" != None ]; then
			echo "nested: $nested"
			show "$nested"
		fi
	done
}

# touches_task says whether a change set changes the DMS task, which must not run
# then.
touches_task() {
	show "$1" | grep -E 'AWS::DMS::(ReplicationTask|ReplicationConfig)' | grep -q Modify
}

stop_task() {
	say "stop the DMS task $task"
	"$AWS" dms stop-replication-task --replication-task-arn "$(output TaskArn)" >/dev/null
	"$AWS" dms wait replication-task-stopped --filters "Name=replication-task-id,Values=$task"
}

# start_task starts a new task, and resumes one that has run: a restart would make
# a new slot, and lose what was between.
start_task() {
	local type=resume-processing
	if [ "$(task_status)" = ready ]; then
		type=start-replication
		# CloudFormation has no property for it.
		say "integers of up to 18 digits as they are (UseLargeIntegerValue)"
		"$AWS" dms modify-endpoint --endpoint-arn "$(output TargetEndpointArn)" --kinesis-settings UseLargeIntegerValue=true >/dev/null
	fi
	say "start the DMS task $task ($type)"
	"$AWS" dms start-replication-task --replication-task-arn "$(output TaskArn)" --start-replication-task-type "$type" >/dev/null
}

# change makes a change set for a stage, shows it, asks, and applies it.
change() {
	local stage=$1 kind=UPDATE wait=update set id reason resume=
	exists || { kind=CREATE wait=create; }
	set=$PREFIX-$stage-$(date -u +%Y%m%d%H%M%S)
	parameters "$stage" >"$work/parameters.json"
	say "change set $set of $stack ($kind, stage $stage)"
	id=$("$AWS" cloudformation create-change-set --stack-name "$stack" --change-set-name "$set" --change-set-type "$kind" \
		--template-url "$url" --parameters "file://$work/parameters.json" --capabilities CAPABILITY_IAM \
		--include-nested-stacks --tags "Key=icehose,Value=$name" --query Id --output text)
	if ! "$AWS" cloudformation wait change-set-create-complete --change-set-name "$id" 2>"$work/error"; then
		reason=$("$AWS" cloudformation describe-change-set --change-set-name "$id" --query StatusReason --output text)
		"$AWS" cloudformation delete-change-set --change-set-name "$id" >/dev/null
		case $reason in
		*"didn't contain changes"* | *"No updates"*)
			echo "nothing to change"
			return
			;;
		esac
		fail "change set refused: $reason"
	fi
	show "$id"
	if [ -z "${YES:-}" ]; then
		read -r -p "apply these changes to $stack? [y/N] " answer
		[ "$answer" = y ] || { "$AWS" cloudformation delete-change-set --change-set-name "$id" >/dev/null; fail "not applied"; }
	fi
	if [ "$kind" = UPDATE ] && [ "$(task_status)" = running ] && touches_task "$id"; then
		stop_task
		resume=1
	fi
	"$AWS" cloudformation execute-change-set --change-set-name "$id"
	"$AWS" cloudformation wait "stack-$wait-complete" --stack-name "$stack" || {
		"$AWS" cloudformation describe-stack-events --stack-name "$stack" --output table \
			--query "StackEvents[?contains(ResourceStatus,'FAILED')].{Resource:LogicalResourceId,Why:ResourceStatusReason}"
		fail "$stack was rolled back; the DMS task is $(task_status)"
	}
	protect
	if [ -n "$resume" ]; then start_task; fi
}

# protect sets the stack policy, of the nested stacks too.
protect() {
	local id
	for id in "$stack" $("$AWS" cloudformation describe-stack-resources --stack-name "$stack" --output text \
		--query "StackResources[?ResourceType=='AWS::CloudFormation::Stack'].PhysicalResourceId"); do
		"$AWS" cloudformation set-stack-policy --stack-name "$id" --stack-policy-body "file://$STACKS/stack-policy.json"
	done
}

# apply creates and evolves the tables, before anything delivers into them.
apply() {
	local warehouse
	warehouse=$(output Warehouse)
	say "tables, by icehose catalog apply"
	# shellcheck disable=SC2086 # flags
	"$ICEHOSE" catalog apply --pipeline "$PIPELINE" --catalog glue --warehouse "$warehouse" ${APPLY:-}
	if [ -n "$HISTORY" ]; then
		# shellcheck disable=SC2086 # flags
		"$ICEHOSE" catalog apply --pipeline "$PIPELINE" --only mirror --mode changelog --suffix "$HISTORY" --catalog glue --warehouse "$warehouse" ${APPLY:-}
	fi
}

deploy() {
	say "upload to s3://$bucket/$PREFIX"
	"$AWS" s3 cp --only-show-errors "$DIST/transform-lambda-arm64.zip" "s3://$bucket/$transform"
	if [ "$reconcile" != none.zip ]; then "$AWS" s3 cp --only-show-errors "$DIST/reconcile-lambda-arm64.zip" "s3://$bucket/$reconcile"; fi
	"$AWS" s3 cp --only-show-errors "$PIPELINE" "s3://$bucket/$pipeline"
	"$AWS" cloudformation package --template-file "$STACKS/main.yaml" --s3-bucket "$bucket" --s3-prefix "$PREFIX/templates" \
		--output-template-file "$work/main.yaml" >/dev/null
	local main
	main=$PREFIX/templates/main-$(digest "$work/main.yaml").yaml
	"$AWS" s3 cp --only-show-errors "$work/main.yaml" "s3://$bucket/$main"
	url=https://$bucket.s3.amazonaws.com/$main
	if [ ! -f "$STACKS/lake-tables.yaml" ]; then
		exists || change lake
		apply
	fi
	change all
	# Stacks create tables and never change them.
	if [ -f "$STACKS/lake-tables.yaml" ]; then apply; fi
	say "outputs of $stack"
	"$AWS" cloudformation describe-stacks --stack-name "$stack" --query 'Stacks[0].Outputs[].[OutputKey,OutputValue]' --output text
}

case $command in
deploy) deploy ;;
start) start_task ;;
stop) stop_task ;;
outputs) "$AWS" cloudformation describe-stacks --stack-name "$stack" --query 'Stacks[0].Outputs[].[OutputKey,OutputValue]' --output text ;;
*) fail "want deploy, start, stop or outputs, got $command" ;;
esac
