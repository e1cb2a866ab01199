package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/alecthomas/kong"
)

// versionCmd prints which icehose this is.
type versionCmd struct{}

// Help implements kong.HelpProvider.
func (*versionCmd) Help() string {
	return `Prints what the Go toolchain has noted in the program: the module's version, the
revision it was built from, whether files differed from it, and the Go version. A
program that was built outside of its repository, or with -buildvcs=false, knows of
no revision.

Exit status: 0 printed, 2 not possible.

Examples:
  icehose version
  icehose --json version`
}

// Run implements the command.
func (*versionCmd) Run(env *environment, global *cli) error {
	return printVersion(env.stdout, global.JSON)
}

// which is the flag --version, which needs no command beside it.
type which bool

// BeforeReset prints the version and ends, as --help does.
func (which) BeforeReset(app *kong.Kong, parsed *kong.Context) error {
	if err := printVersion(app.Stdout, slices.Contains(parsed.Args, "--json")); err != nil {
		return err
	}
	app.Exit(exitSame)
	return nil
}

// A version is what the toolchain has noted in the program.
type version struct {
	Version  string `json:"version"` // of the module; (devel) where it has none
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"` // of the revision
	Modified bool   `json:"modified"`       // files differed from the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionOf(info *debug.BuildInfo) version {
	v := version{Version: cmp.Or(info.Main.Version, "(devel)"), Go: info.GoVersion, Platform: runtime.GOOS + "/" + runtime.GOARCH}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v *version) String() string {
	revision := cmp.Or(v.Revision, "unknown")
	if v.Time != "" {
		revision += " of " + v.Time
	}
	if v.Modified {
		revision += ", modified"
	}
	return fmt.Sprintf("icehose %s, revision %s, %s %s", v.Version, revision, v.Go, v.Platform)
}

func printVersion(w io.Writer, asJSON bool) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("read version: the program was built without modules: build it with go build in its repository")
	}
	v := versionOf(info)
	if asJSON {
		return printJSON(w, v)
	}
	if _, err := fmt.Fprintln(w, v.String()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
