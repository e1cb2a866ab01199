// Package dmssim stands in for AWS DMS over a real PostgreSQL: it reads what
// a replication task would read and writes what its Kinesis endpoint would
// write.
//
// In come a connection string, table patterns and the Settings of an endpoint
// and a task, each with the name and the default it has in DMS; out come
// kinesis.Records: control records, the full load, then changes with their
// transaction details, in the order in which each shard would have them.
// Where DMS documents nothing and no public capture shows the form, the
// comment at the place says so: such a form is a choice of this package and
// no evidence about DMS. It does not resume: every Task makes a new
// replication slot and loads everything.
//
// Real tasks do unpleasant things, and Settings can ask for them: loads that
// already reflect changes still to come, a load that starts again, unchanged
// TOAST values that are absent or null, and both readings of the two log
// sequence numbers in a stream position.
package dmssim
