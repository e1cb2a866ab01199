package main

import (
	"runtime/debug"
	"testing"
)

// What the toolchain notes is what is printed.
func TestVersion(t *testing.T) {
	t.Parallel()
	for want, info := range map[string]*debug.BuildInfo{
		"icehose v1.2.3, revision abc of 2026-01-02T03:04:05Z, modified, go1.2": {
			GoVersion: "go1.2", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
				{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"},
			},
		},
		"icehose (devel), revision unknown, go1.2": {GoVersion: "go1.2"},
	} {
		v := versionOf(info)
		v.Platform = ""
		if got := v.String(); got != want+" " {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
