"""Applies changes to a table as another engine does, for the benchmark.

The argument is JSON: engine (spark or pyiceberg), lake (a folder), jars, table
(database.table, keyed by id), changes (a changelog of it), bounds (positions:
the changes above one and up to the next are one commit). The answer is JSON:
version, seconds of all commits, and peak, the MB of memory that the processes
had at most.
"""

import json
import os
import pathlib
import sys
import time

sys.dont_write_bytecode = True  # nothing is left beside engine.py
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "interop"))
import engine  # noqa: E402


class Spark:
    def __init__(self, task):
        # As one would run it, not as tests do.
        settings = {"adaptive": "true", "partitions": "8", "java": "", "memory": "4g"}
        self.session = engine.Spark({"lake": task["lake"], "jars": task["jars"], **settings}).session
        jvm = self.session.sparkContext._jvm
        self.version = f"Spark {self.session.version} with Iceberg {jvm.org.apache.iceberg.IcebergBuild.version()}"
        self.table, self.changes = task["table"], task["changes"]
        self.apply(task["bounds"][0], task["bounds"][0])  # no changes: compiles the plan

    def apply(self, low, high):
        columns = self.session.table(self.table).columns
        self.session.sql(f"""
            MERGE INTO {self.table} t USING (
              SELECT * FROM (
                SELECT *, row_number() OVER (PARTITION BY id ORDER BY cdc_position DESC) AS newest FROM {self.changes}
                WHERE cdc_position > '{low}' AND cdc_position <= '{high}'
              ) WHERE newest = 1
            ) c ON t.id = c.id
            WHEN MATCHED AND c.cdc_position > t.cdc_position AND c.cdc_operation = 'delete' THEN DELETE
            WHEN MATCHED AND c.cdc_position > t.cdc_position THEN UPDATE SET {", ".join(f"t.{c} = c.{c}" for c in columns)}
            WHEN NOT MATCHED AND c.cdc_operation <> 'delete' THEN INSERT ({", ".join(columns)}) VALUES ({", ".join(f"c.{c}" for c in columns)})
        """)


class PyIceberg:
    def __init__(self, task):
        import pyiceberg

        self.catalog = engine.PyIceberg({"lake": task["lake"]}).catalog
        self.version = f"PyIceberg {pyiceberg.__version__}"
        self.table, self.changes = self.catalog.load_table(task["table"]), self.catalog.load_table(task["changes"])

    def apply(self, low, high):
        import pyarrow.compute as pc
        from pyiceberg.expressions import And, GreaterThan, In, LessThanOrEqual

        rows = self.changes.scan(row_filter=And(GreaterThan("cdc_position", low), LessThanOrEqual("cdc_position", high))).to_arrow()
        newest = rows.group_by("id").aggregate([("cdc_position", "max")])["cdc_position_max"]
        rows = rows.filter(pc.is_in(rows["cdc_position"], value_set=newest))  # no two changes share a position
        deletes = pc.equal(rows["cdc_operation"], "delete")
        with self.table.transaction() as tx:
            tx.delete(In("id", rows.filter(deletes)["id"].to_pylist()))
            tx.upsert(rows.filter(pc.invert(deletes)).select(self.table.schema().column_names), join_cols=["id"])


def peak(pid):
    """The greatest memory, in MB, of a process and those that it has started."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text().split("VmHWM:")
        children = [int(c) for f in pathlib.Path(f"/proc/{pid}/task").glob("*/children") for c in f.read_text().split()]
    except OSError:
        return 0
    own = int(status[1].split()[0]) // 1000 if len(status) > 1 else 0
    return own + sum(peak(child) for child in children)


def main(task):
    # Libraries' words go to standard error.
    out, sys.stdout = sys.stdout, sys.stderr
    runner = {"spark": Spark, "pyiceberg": PyIceberg}[task["engine"]](task)
    began = time.monotonic()
    for low, high in zip(task["bounds"], task["bounds"][1:]):
        runner.apply(low, high)
    answer = {"version": runner.version, "seconds": time.monotonic() - began, "peak": peak(os.getpid())}
    print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
