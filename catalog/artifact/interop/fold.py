"""Runs generated SQL of a changelog in DuckDB, after translation by sqlglot.

In comes JSON on standard input: dialect, database, table, columns (name, type),
view and merge (SQL), first and second (lists of rows). The rows of first are 30
days old, those of second are new. Out come, as JSON, the rows of the view and
those of the folded table after a full merge of first and a merge of the window
after second.
"""

import json
import sys

import duckdb
import sqlglot


def translate(sql, dialect):
    (statement,) = sqlglot.transpile(sql, read=dialect, write="duckdb")
    # Trino and Spark take the value of the greatest position even if it is null.
    return statement.replace("ARG_MAX(", "ARG_MAX_NULL(")


def rows(db, name):
    result = db.execute(f"SELECT * EXCLUDE (cdc_committed_at) FROM {name}")
    names = [c[0] for c in result.description]
    return [dict(zip(names, row)) for row in result.fetchall()]


def main():
    job = json.load(sys.stdin)
    db = duckdb.connect()
    (started,) = db.execute("SELECT now()::VARCHAR").fetchone()
    name = f"{job['database']}.{job['table']}"
    db.execute(f"CREATE SCHEMA {job['database']}")
    columns = ", ".join(f"{c['name']} {c['type']}" for c in job["columns"])
    db.execute(f"CREATE TABLE {name} ({columns}, cdc_position VARCHAR, cdc_committed_at TIMESTAMPTZ, cdc_operation VARCHAR, cdc_old_key VARCHAR, cdc_absent VARCHAR)")

    def insert(batch, age):
        if not batch:
            return
        names = [c["name"] for c in job["columns"]] + ["cdc_position", "cdc_operation", "cdc_old_key", "cdc_absent"]
        marks = ", ".join("?" for _ in names)
        db.executemany(
            f"INSERT INTO {name} ({', '.join(names)}, cdc_committed_at) VALUES ({marks}, TIMESTAMPTZ '{started}' - INTERVAL '{age}' DAY)",
            [[row.get(n) for n in names] for row in batch],
        )

    db.execute(translate(job["view"], job["dialect"]))
    db.execute(f"CREATE TABLE {name}_folded AS SELECT * FROM {name}_current LIMIT 0")
    insert(job["first"], 30)
    full = "\n".join(line for line in job["merge"].splitlines() if not line.endswith("-- WINDOW"))
    db.execute(translate(full, job["dialect"]))
    insert(job["second"], 0)
    db.execute(translate(job["merge"], job["dialect"]))
    json.dump({"view": rows(db, name + "_current"), "folded": rows(db, name + "_folded")}, sys.stdout)


if __name__ == "__main__":
    main()
