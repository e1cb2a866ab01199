package main

// Run is run, for tests.
var Run = run
