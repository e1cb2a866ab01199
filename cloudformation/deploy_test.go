package cloudformation_test

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
)

// stubAWS answers what deploy.sh asks of the AWS CLI about a complete stack whose
// DMS task runs and is to be changed, and notes the calls. REFUSE is a call that
// fails, WAIT the exit status of the waiter, AFTER the state of the stack then;
// the file signal has one that the waiter sends the script, as Ctrl-C does.
const stubAWS = `#!/bin/bash
echo "aws $*" >>log
[ -z "${REFUSE:-}" ] || case "$*" in *"$REFUSE"*) echo "Throttling: $REFUSE" >&2; exit 254 ;; esac
case "$*" in
*" package "*) echo x >"${@: -1}" ;;
*StackStatus*) if [ -e executed ]; then echo "$AFTER"; else echo "$BEFORE"; fi ;;
*"=='Stage'"*) echo all ;;
*TaskArn*) echo arn:aws:dms:x:1:task:T ;;
*create-change-set*) echo set ;;
*"wait change-set"*) exit "$UNCHANGED" ;;
*"--query StatusReason"*) echo "No updates are to be performed." ;;
*describe-change-set*Changes*) printf 'Modify\tFalse\tAWS::DMS::ReplicationTask\tTask\tNone\n' ;;
*describe-stack-resources*) echo nested ;;
*describe-stack-events*) echo "nested Task boom" ;;
*execute-change-set*) touch executed ;;
*"wait stack-"*) [ ! -e signal ] || { kill -"$(cat signal)" $PPID; exit 130; }; exit "$WAIT" ;;
*stop-replication-task*) echo stopped >task ;;
*start-replication-task*) echo running >task ;;
*describe-replication-tasks*Status*) cat task ;;
*) echo something ;;
esac
`

// stubIcehose plans what the file plan says.
const stubIcehose = `#!/bin/bash
echo "icehose $*" >>log
case "$*" in
*"--get Name"*) echo shop ;;
*"catalog plan"*) [ ! -e plan ] || { cat plan; exit 1; } ;;
*) echo something ;;
esac
`

// TestDeployTrouble wants deploy.sh to leave the DMS task as what became of the
// stack allows, and to say so, when a call fails or somebody interrupts it.
func TestDeployTrouble(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("deploy.sh")
	if err != nil {
		t.Fatal(err)
	}
	rename := map[string]string{"plan": "~ shop.orders\n  ~ note -> remark  (renamed)\n"}
	stopped := map[string]string{"task": "stopped\n"}
	for name, test := range map[string]struct {
		command string // deploy if empty
		environ []string
		files   map[string]string
		status  int
		task    string
		said    string
		calls   []string // in this order
		never   string
	}{
		"all is well":                 {task: "running", calls: []string{"stop-replication-task", "execute-change-set", "start-replication-task", "set-stack-policy --stack-name nested"}},
		"interrupted":                 {files: map[string]string{"signal": "INT"}, status: 130, task: "stopped", said: "make start ENV=dev resumes it", never: "start-replication-task"},
		"ended":                       {files: map[string]string{"signal": "TERM"}, status: 143, task: "stopped", said: "make start ENV=dev resumes it", never: "start-replication-task"},
		"still changing":              {environ: []string{"WAIT=255", "AFTER=UPDATE_IN_PROGRESS"}, status: 2, task: "stopped", said: "still being changed (UPDATE_IN_PROGRESS)", never: "start-replication-task"},
		"gone back":                   {environ: []string{"WAIT=255", "AFTER=UPDATE_ROLLBACK_COMPLETE"}, status: 2, task: "running", said: "nested Task boom"},
		"execution refused":           {environ: []string{"REFUSE=execute-change-set"}, status: 2, task: "running", said: "was not changed"},
		"policy refused":              {environ: []string{"REFUSE=set-stack-policy"}, status: 254, task: "running", said: "Throttling"},
		"stage not known":             {environ: []string{"REFUSE=='Stage'", "STAGE=roles"}, status: 254, task: "running", never: "create-change-set"},
		"task not known":              {environ: []string{"REFUSE=TaskArn"}, status: 254, task: "running", never: "execute-change-set"},
		"nothing to change":           {environ: []string{"UNCHANGED=255"}, files: stopped, task: "stopped", said: "the DMS task is stopped: make start ENV=dev", calls: []string{"set-stack-policy"}},
		"renamed while it runs":       {files: rename, status: 2, task: "running", said: "make stop ENV=dev", calls: []string{"delete-change-set"}, never: "execute-change-set"},
		"renamed":                     {files: map[string]string{"plan": rename["plan"], "task": "stopped\n"}, task: "stopped", said: "has its old name", calls: []string{"catalog apply", "execute-change-set"}},
		"stacks make tables":          {files: map[string]string{"plan": "  + note  string\n", "stacks/lake-tables.yaml": ""}, task: "running", calls: []string{"catalog apply --only-existing", "execute-change-set", "catalog apply --pipeline", "start-replication-task"}},
		"half-way back":               {environ: []string{"BEFORE=UPDATE_ROLLBACK_FAILED"}, status: 2, task: "running", said: "continue-update-rollback", never: "create-change-set"},
		"stop what is half-way back":  {command: "stop", environ: []string{"BEFORE=UPDATE_ROLLBACK_FAILED"}, task: "stopped"},
		"start while the stack moves": {command: "start", environ: []string{"BEFORE=UPDATE_IN_PROGRESS"}, files: stopped, task: "running"},
		"changelogs are merged":       {files: map[string]string{"stacks/merge.yaml": "", "merge-lambda-arm64.zip": ""}, task: "running", calls: []string{"--set MergeKey=icehose/merge-lambda-arm64-", "merge-lambda-arm64.zip s3://", "execute-change-set"}},
		"no zip for their merge":      {files: map[string]string{"stacks/merge.yaml": ""}, status: 2, task: "running", said: "no ./merge-lambda-arm64.zip: run make package", never: "s3 cp"},
		"nothing is merged":           {task: "running", calls: []string{"stack parameters", "execute-change-set"}, never: "MergeKey"},
		"stop what is stopped":        {command: "stop", files: stopped, task: "stopped", said: "is stopped", never: "stop-replication-task"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.files["signal"] == "INT" && signal.Ignored(os.Interrupt) {
				t.Skip("a shell cannot trap what was ignored before it")
			}
			dir := t.TempDir()
			write := func(name, text string) {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // some are programs
					t.Fatal(err)
				}
			}
			read := func(name string) string {
				text, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			for _, name := range []string{"transform-lambda-arm64.zip", "reconcile-lambda-arm64.zip", "pipeline.yaml", "dev.yaml", "stacks/main.yaml"} {
				write(name, "")
			}
			write("aws", stubAWS)
			write("icehose", stubIcehose)
			write("task", "running\n")
			for name, text := range test.files {
				write(name, text)
			}
			command := test.command
			if command == "" {
				command = "deploy"
			}
			cmd := exec.CommandContext(t.Context(), "bash", script, command, "dev")
			cmd.Dir = dir
			cmd.Env = append(append(os.Environ(), "YES=1", "POLL=0", "AWS=./aws", "ICEHOSE=./icehose", "ENVDIR=.", "DIST=.",
				"WAIT=0", "UNCHANGED=0", "BEFORE=UPDATE_COMPLETE", "AFTER=UPDATE_COMPLETE"), test.environ...)
			out, err := cmd.CombinedOutput()
			if err != nil && cmd.ProcessState == nil {
				t.Fatal(err)
			}
			if status := cmd.ProcessState.ExitCode(); status != test.status || !strings.Contains(string(out), test.said) {
				t.Errorf("exit status %d, want %d and %q:\n%s", status, test.status, test.said, out)
			}
			if task := strings.TrimSpace(read("task")); task != test.task {
				t.Errorf("the task is %s, want %s:\n%s", task, test.task, out)
			}
			log := read("log")
			rest := log
			for _, call := range test.calls {
				var ok bool
				if _, rest, ok = strings.Cut(rest, call); !ok {
					t.Errorf("no call %q, or not after those before it, in\n%s", call, log)
				}
			}
			if test.never != "" && strings.Contains(log, test.never) {
				t.Errorf("calls %q:\n%s", test.never, log)
			}
		})
	}
}
