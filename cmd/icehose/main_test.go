package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write the scripts' golden parts anew")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"icehose": func() {
			os.Exit(runProcess())
		},
	})
}

func TestScripts(t *testing.T) {
	fixture, err := filepath.Abs("../../testdata/events/tpcc")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true, UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("FIXTURE", fixture)
			return nil
		},
	})
}
