#!/usr/bin/env bash
# Deploys the stacks of a pipeline file with the AWS CLI, step by step as
# README.md has them: make deploy ENV=dev.
#
#   deploy.sh deploy ENV    generate, check, upload, show what changes, ask, apply it
#   deploy.sh start ENV     start the DMS task, or resume it
#   deploy.sh stop ENV      stop it
#   deploy.sh outputs ENV   print the outputs of the stack
#
# Variables: PIPELINE (pipeline.yaml), STACKS (stacks: what icehose stack generate
# wrote; keep it under version control), GENERATE (more flags for it), HISTORY (a
# suffix, as its --history), STAGE (all; roles stops before the delivery streams,
# for grants of Lake Formation), ENVDIR (cloudformation/env), DIST (dist), ICEHOSE
# (bin/icehose), AWS (aws), APPLY (more flags for icehose catalog plan and apply),
# POLL (10: seconds between two looks at the task), YES=1 (do not ask).
# It needs bash 4.4.
set -euo pipefail
shopt -s inherit_errexit

PIPELINE=${PIPELINE:-pipeline.yaml}
STACKS=${STACKS:-stacks}
GENERATE=${GENERATE:-}
HISTORY=${HISTORY:-}
STAGE=${STAGE:-all}
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
[ -n "$environment" ] || fail "which environment? ENV=dev is $ENVDIR/dev.yaml"
[ -f "$ENVDIR/$environment.yaml" ] || fail "no $ENVDIR/$environment.yaml"
case $STAGE in roles | all) ;; *) fail "STAGE: want roles or all, got $STAGE" ;; esac
work=$(mktemp -d)
stopped=
trap 'rm -rf "$work"; if [ -n "$stopped" ]; then echo "deploy: the DMS task is stopped: make start ENV=$environment resumes it, when $stack is not being changed" >&2; fi' EXIT
# The AWS CLI ends by itself when interrupted, and nothing may go on after it.
trap 'exit 130' INT
trap 'exit 143' TERM

# parameters prints the parameters for a stage, checked against the template.
parameters() {
	local stage=$1
	shift
	"$ICEHOSE" stack parameters --template "$STACKS/main.yaml" "$ENVDIR/common.yaml" "$ENVDIR/$environment.yaml" \
		--set Stage="$stage" --set TransformKey="$transform" --set ReconcileKey="$reconcile" --set PipelineKey="$pipeline" ${merge:+--set MergeKey="$merge"} "$@"
}

# A new name for each content: a function changes over when its stack does, and
# not before.
transform=none.zip reconcile=none.zip pipeline=none.yaml merge=
if [ "$command" = deploy ]; then
	for zip in transform reconcile; do
		[ -f "$DIST/$zip-lambda-arm64.zip" ] || fail "no $DIST/$zip-lambda-arm64.zip: run make package"
	done
	[ -f "$PIPELINE" ] || fail "no $PIPELINE: PIPELINE is the pipeline file"
	transform=$PREFIX/transform-lambda-arm64-$(digest "$DIST/transform-lambda-arm64.zip").zip
	reconcile=$PREFIX/reconcile-lambda-arm64-$(digest "$DIST/reconcile-lambda-arm64.zip").zip
	pipeline=$PREFIX/pipeline-$(digest "$PIPELINE").yaml
	say "templates of $PIPELINE in $STACKS"
	# shellcheck disable=SC2086 # flags
	"$ICEHOSE" stack generate --pipeline "$PIPELINE" --out "$STACKS" ${HISTORY:+--history "$HISTORY"} $GENERATE
	if [ -f "$STACKS/merge.yaml" ]; then # there are changelogs
		[ -f "$DIST/merge-lambda-arm64.zip" ] || fail "no $DIST/merge-lambda-arm64.zip: run make package"
		merge=$PREFIX/merge-lambda-arm64-$(digest "$DIST/merge-lambda-arm64.zip").zip
	fi
fi
[ -f "$STACKS/main.yaml" ] || fail "no $STACKS/main.yaml: STACKS is the folder that make deploy wrote the templates to"
name=$(parameters all --get Name)
bucket=$(parameters all --get ArtifactBucket)
stack=icehose-$name

# stack_status prints the state of the stack, nothing if there is none.
stack_status() {
	"$AWS" cloudformation describe-stacks --stack-name "$stack" --query 'Stacks[0].StackStatus' --output text 2>"$work/error" && return
	grep -q 'does not exist' "$work/error" || fail "$(cat "$work/error")"
}

# stack_state is that of a stack that can be changed. It is empty when there is no
# stack, or only a change set that nobody applied.
stack_state() {
	local state
	state=$(stack_status) || return
	case $state in
	REVIEW_IN_PROGRESS) ;;
	ROLLBACK_COMPLETE | ROLLBACK_FAILED) fail "$stack was never created ($state): aws cloudformation delete-stack --stack-name $stack, then again" ;;
	UPDATE_ROLLBACK_FAILED) fail "$stack is half-way back ($state): aws cloudformation continue-update-rollback --stack-name $stack, then again" ;;
	*_IN_PROGRESS) fail "$stack is being changed ($state): wait for it" ;;
	*) echo "$state" ;;
	esac
}

# output prints an output of the stack, nothing if there is none.
output() {
	local value
	value=$("$AWS" cloudformation describe-stacks --stack-name "$stack" --query "Stacks[0].Outputs[?OutputKey=='$1'].OutputValue" --output text) || return
	if [ "$value" != None ]; then echo "$value"; fi
}

# DMS Serverless has calls of its own.
serverless() { case $task in *:replication-config:*) ;; *) return 1 ;; esac; }

# ask_task prints one field of the DMS task.
ask_task() {
	if serverless; then
		"$AWS" dms describe-replications --filters "Name=replication-config-arn,Values=$task" --query "Replications[0].$1" --output text
	else
		"$AWS" dms describe-replication-tasks --without-settings --filters "Name=replication-task-arn,Values=$task" --query "ReplicationTasks[0].$1" --output text
	fi
}

# why_stopped fails with what DMS says.
why_stopped() {
	fail "the DMS task is $1: $(ask_task StopReason) $(ask_task "$(if serverless; then echo FailureMessages; else echo LastFailureMessage; fi)")"
}

# await_task waits until the task is in a state. For a moment it may still be in
# the one that it was started from.
await_task() {
	local state try
	for try in $(seq 180); do
		state=$(ask_task Status) || return
		case $state in
		"$1") return ;;
		stopped | failed) [ "$try" -le 3 ] || why_stopped "$state" ;;
		esac
		sleep "${POLL:-10}"
	done
	fail "the DMS task is $state, want $1"
}

stop_task() {
	local state
	state=$(ask_task Status)
	case $state in stopped | failed | ready | created) echo "the DMS task is $state"; return ;; esac
	say "stop the DMS task $task"
	if serverless; then
		"$AWS" dms stop-replication --replication-config-arn "$task" >/dev/null
	else
		"$AWS" dms stop-replication-task --replication-task-arn "$task" >/dev/null
	fi
	stopped=1
	await_task stopped
}

# start_task starts a new task, and resumes one that has run: a restart would make
# a new slot, and lose what was between.
start_task() {
	local state type=resume-processing instance endpoint field
	state=$(ask_task Status)
	case $state in
	running | starting) echo "the DMS task is $state"; return ;;
	ready | created) type=start-replication ;;
	esac
	# CloudFormation has no property for it.
	say "integers of up to 18 digits as they are (UseLargeIntegerValue)"
	endpoint=$(output TargetEndpointArn)
	"$AWS" dms modify-endpoint --endpoint-arn "$endpoint" --kinesis-settings UseLargeIntegerValue=true >/dev/null
	say "start the DMS task $task ($type)"
	if serverless; then # it tests its connections itself
		"$AWS" dms start-replication --replication-config-arn "$task" --start-replication-type "$type" >/dev/null
	else
		# DMS starts no task before both connections were tested. A change of an
		# endpoint begins a test by itself.
		instance=$(ask_task ReplicationInstanceArn)
		for field in SourceEndpointArn TargetEndpointArn; do
			endpoint=$(ask_task "$field")
			"$AWS" dms test-connection --replication-instance-arn "$instance" --endpoint-arn "$endpoint" >/dev/null 2>"$work/error" ||
				grep -q 'already being tested' "$work/error" || fail "$(cat "$work/error")"
			"$AWS" dms wait test-connection-succeeds --filters "Name=replication-instance-arn,Values=$instance" "Name=endpoint-arn,Values=$endpoint" ||
				fail "DMS cannot reach $endpoint: $("$AWS" dms describe-connections --filters "Name=endpoint-arn,Values=$endpoint" --query 'Connections[0].LastFailureMessage' --output text)"
		done
		"$AWS" dms start-replication-task --replication-task-arn "$task" --start-replication-task-type "$type" >/dev/null
	fi
	await_task running
	stopped=
}

# changes lists what a change set does, and those of its nested stacks: action,
# replacement, type and resource, with tabs between them.
changes() {
	local action replacement type resource nested
	"$AWS" cloudformation describe-change-set --change-set-name "$1" --output text \
		--query 'Changes[].ResourceChange.[Action,Replacement,ResourceType,LogicalResourceId,ChangeSetId]' |
		while IFS=$'\t' read -r action replacement type resource nested; do
			case $action in "" | None) continue ;; esac
			printf '%s\t%s\t%s\t%s\n' "$action" "${replacement/None/-}" "$type" "$2$resource"
			if [ "$nested" != None ]; then changes "$nested" "$2$resource/"; fi
		done
}

# change makes a change set for a stage, shows it and what catalog apply would do
# to the tables, asks, and does both.
change() {
	local stage=$1 kind=UPDATE wait=update set id reason now answer since tables= resume= failed= state
	state=$(stack_state)
	[ -n "$state" ] || { kind=CREATE wait=create; }
	if [ "$kind" = UPDATE ] && [ "$stage" != all ]; then
		now=$("$AWS" cloudformation describe-stacks --stack-name "$stack" --query "Stacks[0].Parameters[?ParameterKey=='Stage'].ParameterValue" --output text)
		[ "$now" != all ] || fail "$stack is complete: stage $stage would delete what delivers"
	fi
	set=$PREFIX-$stage-$(date -u +%Y%m%d%H%M%S)
	parameters "$stage" >"$work/parameters.json"
	say "change set $set of $stack ($kind, stage $stage)"
	id=$("$AWS" cloudformation create-change-set --stack-name "$stack" --change-set-name "$set" --change-set-type "$kind" \
		--template-url "$url" --parameters "file://$work/parameters.json" --capabilities CAPABILITY_IAM \
		--include-nested-stacks --tags "Key=icehose,Value=$name" --query Id --output text)
	if ! "$AWS" cloudformation wait change-set-create-complete --change-set-name "$id" 2>"$work/error"; then
		reason=$("$AWS" cloudformation describe-change-set --change-set-name "$id" --query StatusReason --output text)
		forget "$id"
		case $reason in
		*"didn't contain changes"* | *"No updates"*) id= ;;
		*) fail "change set refused: $reason" ;;
		esac
	fi
	if [ -n "$id" ]; then
		changes "$id" "" >"$work/changes"
		expand -t 8,22,62 "$work/changes"
		if grep -E "^(Remove|Modify	True)" "$work/changes" >"$work/lost"; then
			printf '\n!! removed or replaced (what is retained stays, outside of the stack):\n'
			expand -t 8,22,62 "$work/lost"
		fi
		if grep -q "^Modify	Conditional" "$work/changes"; then echo "?? Conditional: may be replaced; the stack policy refuses it for what holds data"; fi
	fi
	task=
	if [ "$kind" = UPDATE ]; then
		task=$(output TaskArn)
		say "tables, by icehose catalog plan"
		catalog plan | tee "$work/plan" || { [ $? -eq 1 ] && tables=1; } || { forget "$id"; fail "the tables cannot become what $PIPELINE says; nothing was changed"; }
		if grep -qE '^  - |\(renamed\)$' "$work/plan"; then
			if [ -n "$task" ]; then
				state=$(ask_task Status)
				case $state in stopped | failed | ready | created) ;; *)
					forget "$id"
					fail "a column is renamed or dropped while the DMS task is $state: make stop ENV=$environment, wait until icehose status --name $name finds everything delivered, then again; nothing was changed"
					;;
				esac
			fi
			printf '\n!! a column is renamed or dropped: what is not delivered yet has its old name and fails (icehose status --name %s)\n' "$name"
		fi
	fi
	if [ -z "$id$tables" ]; then
		echo "nothing to change"
		protect
		return
	fi
	if [ -z "${YES:-}" ]; then
		read -r -p "apply these changes to $stack? [y/N] " answer || true
		if [ "$answer" != y ]; then
			forget "$id"
			fail "not applied"
		fi
	fi
	# Before anything delivers into them. Where stacks create tables, those that are
	# there evolve now, and the rest is looked at when the stacks are done.
	if [ -n "$tables" ]; then
		say "tables, by icehose catalog apply"
		if [ -n "$id" ] && [ -f "$STACKS/lake-tables.yaml" ]; then
			catalog apply --only-existing
		else
			catalog apply
			tables=
		fi
	fi
	[ -n "$id" ] || return 0
	since=$("$AWS" cloudformation describe-change-set --change-set-name "$id" --query CreationTime --output text)
	# A task that runs cannot be changed, nor can its endpoints.
	if [ -n "$task" ] && grep -q "^Modify.*AWS::DMS::\(ReplicationTask\|ReplicationConfig\|Endpoint\)" "$work/changes"; then
		state=$(ask_task Status)
		if [ "$state" = running ]; then
			stop_task
			resume=1
		fi
	fi
	say "apply it"
	if ! "$AWS" cloudformation execute-change-set --change-set-name "$id" || ! "$AWS" cloudformation wait "stack-$wait-complete" --stack-name "$stack"; then
		state=$(stack_status) || state="in an unknown state"
		case $state in
		REVIEW_IN_PROGRESS) ;;
		*_IN_PROGRESS | *unknown*) fail "$stack is still being changed ($state): make start ENV=$environment when it is done" ;;
		esac
		causes "$since"
		failed="$stack was not changed ($state): what failed is above"
	elif [ -n "$tables" ]; then
		say "tables, by icehose catalog apply"
		catalog apply || failed="the tables are not what $PIPELINE says: make deploy again"
	fi
	if [ -n "$resume" ]; then start_task; fi
	[ -z "$failed" ] || fail "$failed"
	protect
}

# forget deletes a change set, if there is one.
forget() { [ -z "$1" ] || "$AWS" cloudformation delete-change-set --change-set-name "$1" >/dev/null || true; }

# stacks lists the stack and those nested in it.
stacks() {
	echo "$stack"
	"$AWS" cloudformation describe-stack-resources --stack-name "$stack" --output text \
		--query "StackResources[?ResourceType=='AWS::CloudFormation::Stack' && PhysicalResourceId].[PhysicalResourceId]"
}

# causes lists what failed since a time, in the nested stacks too.
causes() {
	local id
	for id in $(stacks); do
		"$AWS" cloudformation describe-stack-events --stack-name "$id" --output text \
			--query "StackEvents[?Timestamp>='$1' && contains(ResourceStatus,'FAILED')].[StackName,LogicalResourceId,ResourceStatusReason]" || true
	done
}

# protect sets the stack policy, of the nested stacks too.
protect() {
	local id ids
	ids=$(stacks)
	for id in $ids; do
		"$AWS" cloudformation set-stack-policy --stack-name "$id" --stack-policy-body "file://$STACKS/stack-policy.json"
	done
}

# catalog plans or applies the tables: plan or apply, and more flags. The exit
# status is that of icehose.
catalog() {
	local warehouse status=0
	warehouse=$(output Warehouse) || return 2
	# shellcheck disable=SC2086 # flags
	"$ICEHOSE" catalog "$@" --pipeline "$PIPELINE" --catalog glue --warehouse "$warehouse" ${APPLY:-} || status=$?
	if [ -n "$HISTORY" ] && [ "$status" -lt 2 ]; then
		# shellcheck disable=SC2086 # flags
		"$ICEHOSE" catalog "$@" --pipeline "$PIPELINE" --only mirror --mode changelog --suffix "$HISTORY" --catalog glue --warehouse "$warehouse" ${APPLY:-} ||
			status=$(($? > status ? $? : status))
	fi
	return "$status"
}

outputs() { "$AWS" cloudformation describe-stacks --stack-name "$stack" --query 'Stacks[0].Outputs[].[OutputKey,OutputValue]' --output text; }

deploy() {
	local main state
	state=$(stack_state)
	say "upload to s3://$bucket/$PREFIX"
	"$AWS" s3 cp --only-show-errors "$DIST/transform-lambda-arm64.zip" "s3://$bucket/$transform"
	"$AWS" s3 cp --only-show-errors "$DIST/reconcile-lambda-arm64.zip" "s3://$bucket/$reconcile"
	[ -z "$merge" ] || "$AWS" s3 cp --only-show-errors "$DIST/merge-lambda-arm64.zip" "s3://$bucket/$merge"
	"$AWS" s3 cp --only-show-errors "$PIPELINE" "s3://$bucket/$pipeline"
	"$AWS" cloudformation package --template-file "$STACKS/main.yaml" --s3-bucket "$bucket" --s3-prefix "$PREFIX/templates" \
		--output-template-file "$work/main.yaml" >/dev/null
	main=$PREFIX/templates/main-$(digest "$work/main.yaml").yaml
	"$AWS" s3 cp --only-show-errors "$work/main.yaml" "s3://$bucket/$main"
	url=https://$bucket.s3.amazonaws.com/$main
	# Stream and bucket come first, so that there is a place for the tables.
	if [ -z "$state" ]; then change lake; fi
	change "$STAGE"
	say "outputs of $stack"
	outputs
	task=$(output TaskArn)
	[ -n "$task" ] || return 0
	state=$(ask_task Status)
	case $state in running | starting | ready | created) ;; *) printf '\n!! the DMS task is %s: make start ENV=%s resumes it\n' "$state" "$environment" ;; esac
}

case $command in
deploy) deploy ;;
start | stop)
	# In any state of the stack: a change that failed may have left the task as it is.
	state=$(stack_status)
	[ -n "$state" ] || fail "no stack $stack: make deploy ENV=$environment"
	task=$(output TaskArn)
	[ -n "$task" ] || fail "$stack ($state) has no DMS task: its Migration is none, or it is not made yet"
	"${command}_task"
	stopped=
	;;
outputs) outputs ;;
*) fail "want deploy, start, stop or outputs, got $command" ;;
esac
