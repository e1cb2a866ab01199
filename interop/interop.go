// Package interop proves the tables and the SQL of icehose with engines that
// are not ours: Spark, Trino, DuckDB and PyIceberg, each run by engine.py.
//
// All of it is tests, under the build tag interop; make interop installs what
// they need and runs them.
package interop
