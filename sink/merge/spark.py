"""Merges changelogs into their current tables on Spark with Iceberg.

For each table of SPECS: what files the changelog has gained since the last run
is read, the keys that they speak of are folded anew, and the current table is
made so. How far was read is noted in the summary of the snapshot that does it,
so the two cannot part; then as table properties, for whoever reads only those.
The script may be run again, killed, or run by two at once. Prints one line of
JSON per table, and ends with 2 if one of them could not be merged, else with 1
if positions of one have gone back in time.

Needs Spark 4.0 or newer with the Iceberg runtime and its SQL extensions, not
Spark Connect. Set the catalog that holds the tables as spark.sql.defaultCatalog.
"""

import json
import sys

MERGED, POSITION, KIND, KEY = "icehose.merged-snapshot", "icehose.merged-position", "icehose.position-kind", "icehose.merged-key"
LOG_KEY, LOG_ABSENT = "icehose.key", "icehose.absent"  # of the changelog
COLUMNS, CHANGE, ONTO = "icehose.merged-columns", "icehose.merged-change", "icehose.merged-onto"
TAG = "icehose_merged"
ATTEMPTS = 3
SLACK = 15 * 60  # seconds, as of the sink
NEVER = 1 << 60  # a time in seconds after all others
OUT_OF_STEP = (
    "changes were committed more than 15 minutes after the newest one and yet lie below it: a clock that was wrong, or a long transaction;"
    " if the source was restored or has failed over, put the time of it into epochs: of the pipeline file and deliver the changes since then again"
)


class Refused(Exception):
    """What cannot be merged, and what to do."""


class Changed(Exception):
    """Somebody else has changed the current table: begin again."""


class Statement:
    """Runs a statement within Iceberg's CommitMetadata, which calls back."""

    def __init__(self, run):
        self.run = run

    def call(self):
        self.run()

    class Java:
        implements = ["java.util.concurrent.Callable"]


def with_summary(spark, properties, run):
    """Runs a statement whose snapshot gets properties in its summary."""
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(spark.sparkContext._gateway)
    values = spark._jvm.java.util.HashMap()
    for name, value in properties.items():
        values.put(name, value)
    errors = []

    def attempt():
        # An error that crossed the two languages would lose its text.
        try:
            run()
        except Exception as err:  # noqa: BLE001
            errors.append(err)

    failure = spark._jvm.java.lang.Class.forName("java.lang.RuntimeException")
    spark._jvm.org.apache.iceberg.spark.CommitMetadata.withCommitProperties(values, Statement(attempt), failure)
    if errors:
        raise errors[0]


def scalar(spark, sql):
    rows = spark.sql(sql).collect()
    return rows[0][0] if rows else None


def newest(spark, table):
    """The newest snapshot of a table, None while it has none."""
    return scalar(spark, f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'")


def marker(spark, spec, properties):
    """The furthest snapshot of the changelog that is noted, and the greatest position.

    The snapshot is None if there is no note, and "0" if a first merge has begun.
    """
    noted = [(properties.get(MERGED), properties.get(POSITION), properties.get(CHANGE))]
    noted += [
        (summary[MERGED], summary.get(POSITION), summary.get(CHANGE))
        for parent, summary in spark.sql(
            f"SELECT s.parent_id, s.summary FROM {spec['current']}.snapshots AS s"
            f" JOIN {spec['current']}.history AS h ON h.snapshot_id = s.snapshot_id"
            f" WHERE h.is_current_ancestor AND s.summary['{MERGED}'] IS NOT NULL"
        ).collect()
        if keeps_its_note(parent, summary)
    ]
    order = {
        str(row[0]): n
        for n, row in enumerate(spark.sql(f"SELECT snapshot_id FROM {spec['log']}.snapshots ORDER BY committed_at").collect())
    }
    noted = [(snapshot, position or "", change or "") for snapshot, position, change in noted if snapshot]
    if all(snapshot == "0" for snapshot, _, _ in noted):
        return ("0" if noted else None), "", ""
    snapshot = max((n for n in noted if n[0] != "0"), key=lambda n: order.get(n[0], -1))[0]
    if snapshot not in order:
        raise Refused(
            f"snapshot {snapshot} of the changelog, up to which was merged, has expired: run with --rebuild,"
            " which folds everything anew; merge more often than snapshots expire"
        )
    return snapshot, max(position for _, position, _ in noted), max(change for _, _, change in noted)


def keeps_its_note(parent, summary):
    """Whether a snapshot did what its note says: it was made upon the one that the merge had read.

    A statement that the fence has kept from its work may commit a snapshot all
    the same, with nothing in it but the note. Older notes do not say upon what.
    """
    if ONTO in summary:
        return summary[ONTO] == str(parent or 0)
    return any(summary.get(name, "0") != "0" for name in ("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files"))


def added(spark, spec, start, end):
    """The relation of the rows that the changelog gained."""
    log = spec["log"]
    if start is None:
        return as_of(spark, spec, end)
    # An incremental read goes from snapshot to snapshot, some of which may have
    # expired: the tag keeps only the first. It passes over those that replace
    # files, since they add no rows. One that overwrites, and yet adds files and
    # removes none, may well add rows. And it gives rows that a later snapshot has
    # deleted: without a key they would become current ones.
    snapshots = {
        str(row[0]): row[1:] for row in spark.sql(f"SELECT snapshot_id, parent_id, operation, summary FROM {log}.snapshots").collect()
    }
    at = str(end)
    while at != start and at in snapshots:
        parent, operation, summary = snapshots[at]
        if operation == "overwrite" and summary.get("deleted-data-files", "0") == "0" and summary.get("added-data-files", "0") != "0":
            break
        deleted = any(summary.get(name, "0") != "0" for name in ("added-delete-files", "deleted-data-files"))
        if deleted and operation != "replace" and not spec["key"]:
            break
        at = str(parent)
    if at != start:
        return f"(SELECT * FROM {log} VERSION AS OF {end} WHERE _file NOT IN (SELECT file_path FROM {log}.files VERSION AS OF {start}))"
    return f"{log} WITH ('start-snapshot-id' = '{start}', 'end-snapshot-id' = '{end}')"


def fill(statement, values):
    for name, value in values.items():
        statement = statement.replace("${" + name + "}", value)
    return statement


def check(spark, spec):
    have = {field.name for field in spark.table(spec["log"]).schema.fields}
    for column in spec["columns"]:
        if column not in have:
            raise Refused(f"the changelog has no column {column}: icehose catalog apply adds it, or the table is no changelog")
    properties = properties_of(spark, spec["log"])
    key = properties.get(LOG_KEY, spec["key"])
    if key != spec["key"]:
        raise Refused(
            f"the changelog was written by the key ({key}), the pipeline file says ({spec['key']}): a row that changed its key would stay under"
            f" its old one too. Write key: [{key}]; or, if a key column was renamed, icehose catalog apply"
        )
    # A name that is none of the columns is that of one that is gone.
    for column in properties.get(LOG_ABSENT, "").split(","):
        if column in spec["columns"] and column not in spec["absent"] and column not in spec["key"].split(","):
            raise Refused(
                f"rows of the changelog may have left out column {column}, because it was may_be_unchanged: null there does not mean null."
                f" Put may_be_unchanged: true back; if no row has {column} in cdc_absent, take it out of the property {LOG_ABSENT} of the changelog"
            )


def add_missing(spark, spec):
    """Adds the columns that the current table lacks; reports whether there were any."""

    def missing():
        spark.sql(f"REFRESH TABLE {spec['current']}")
        have = {field.name for field in spark.table(spec["current"]).schema.fields}
        return [name for name in spec["adds"] if name not in have]

    names = missing()
    for name in names:
        try:
            spark.sql(spec["adds"][name])
        except Exception as err:
            if name in missing():
                raise
            raise Changed(f"another run has added column {name}") from err
    return bool(names)


def notes(spec, merged, position, change):
    return {MERGED: str(merged), POSITION: position, KIND: spec["kind"], KEY: spec["key"], COLUMNS: spec["shape"], CHANGE: change}


def properties_of(spark, table):
    return {row[0]: row[1] for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}


def note(spark, spec, noted, before):
    """Writes notes as properties, and keeps the snapshot of the changelog that they name.

    Where these are no longer as before, another run has noted how far it came: that
    may be further, and the next run finds out. Returns what could not be done, which
    is no reason to say that the merge failed.
    """
    spark.sql(f"REFRESH TABLE {spec['current']}")
    if properties_of(spark, spec["current"]).get(MERGED) != before:
        return []
    noted = {**noted, FIELDS: fields_note(spark, spec)}
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in noted.items())
    warnings = []
    for statement, harm in (
        (f"ALTER TABLE {spec['current']} SET TBLPROPERTIES ({listed})", "the properties of the current table do not tell so, and the next run has to find out"),
        (
            f"ALTER TABLE {spec['log']} CREATE OR REPLACE TAG {TAG} AS OF VERSION {noted[MERGED]} RETAIN 30 DAYS",
            f"snapshot {noted[MERGED]} of the changelog has no tag {TAG}, so it may expire before the next run",
        ),
    ):
        for n in range(1, ATTEMPTS + 1):
            try:
                spark.sql(statement)
                break
            except Exception as err:  # noqa: BLE001
                if n == ATTEMPTS:
                    warnings.append(f"the rows are merged, but {harm}: " + str(err).split("\n")[0])
    return warnings


def checkpoint(frame):
    """Computes a frame and keeps it on two executors; returns it, and what to unpersist."""
    from pyspark import StorageLevel

    kept = frame.localCheckpoint(storageLevel=StorageLevel.MEMORY_AND_DISK_2)
    return kept, kept._jdf.queryExecution().logical().rdd()


def regressed(result, read, position, time):
    """Counts changes that were committed later than the newest one merged before, and yet lie below it.

    Commit times of one run that fall behind its positions are a warning. Returns the position and the commit time of the newest change, as the note has them.
    """
    result["regressed"] = read["cdc_regressed"] or 0
    if read["cdc_change"] and read["cdc_change"] > position:
        position, time = read["cdc_change"], read["cdc_time"]
    if position and not result["regressed"] and (read["cdc_latest"] or 0) > time + SLACK:
        result["warnings"].append(OUT_OF_STEP)
    return f"{position} {time}" if position else ""


def attempt(spark, spec, rebuild):
    log, current = spec["log"], spec["current"]
    for table in (log, current):
        spark.sql(f"REFRESH TABLE {table}")
    end, expected = newest(spark, log), newest(spark, current)
    result = {"table": spec["name"], "current": spec["current_name"], "from": 0, "to": end or 0, "read": 0, "changed": 0, "deleted": 0, "late": 0, "warnings": list(spec["warnings"])}
    if end is None:
        return result
    while move_columns(spark, spec):
        pass
    properties = properties_of(spark, current)
    kind = properties.get(KIND)
    start, position, change = None, "", ""
    if not rebuild:
        if kind and kind != spec["kind"]:
            raise Refused(
                f"the positions merged so far are of kind {kind}, the pipeline file says {spec['kind']}, and the two do not compare:"
                " put the change of kind into epochs: of the pipeline file, then, once a change of the new epoch is there, run with --rebuild"
            )
        start, position, change = marker(spark, spec, properties)
        if start is None and expected is not None and scalar(spark, f"SELECT 1 FROM {current} LIMIT 1"):
            raise Refused(
                "the current table has rows, and no note of how far it was merged: was it filled by something else, or restored?"
                " Run with --rebuild, which folds everything anew"
            )
    missing = add_missing(spark, spec)
    # Other columns or defaults than before, or a run that was killed before it
    # noted them: every key is folded anew.
    if missing or start is not None and properties.get(COLUMNS) != spec["shape"]:
        start, position, change, rebuild = None, "", "", True
    if start == "0":
        start = None
    result["from"] = int(start or 0)
    if start == str(end):
        # A run was killed before it wrote them, or could not set the tag.
        tagged = scalar(spark, f"SELECT snapshot_id FROM {log}.refs WHERE name = '{TAG}' AND type = 'TAG'")
        if properties.get(MERGED) != start or tagged != end:
            result["warnings"] += note(spark, spec, notes(spec, end, position, change), properties.get(MERGED))
        return result
    highest, time = change.split(" ") if change else ("", NEVER)
    values = {
        "added": added(spark, spec, start, end), "log": as_of(spark, spec, end), "changes": "icehose_changes",
        "fence": spec["no_fence"] if expected is None else fill(spec["fence"], {"current": str(expected)}),
        "position": position, "change": highest, "time": str(time), "rebuild": "true" if rebuild else "false",
    }
    read = spark.sql(fill(spec["read"], values)).collect()[0]
    if read["cdc_malformed"]:
        raise Refused(f"{read['cdc_malformed']} rows of the changelog have a {spec['position']} that is no position: remove them, or name the right table")
    stranger = read["cdc_stranger"]
    if stranger and stranger[:4] >= max(position, read["cdc_highest"])[:4]:
        raise Refused(
            f"the changelog has changes with two kinds of position: {stranger} is none of kind {spec['kind']}, which the pipeline file says,"
            " and the two do not compare: delete the changes of the other kind, or give the newer ones an epoch (epochs: in the pipeline file)"
            " and deliver them again, then run with --rebuild; where an epoch has been given, wait for its first change"
        )
    result["read"], result["late"] = read["cdc_read"], read["cdc_late"]
    change = regressed(result, read, highest, int(time))
    kept = []
    constraints = spark.conf.get("spark.sql.constraintPropagation.enabled")
    try:
        # Spark 4.0 cannot keep a union whose parts have constraints of their own.
        spark.conf.set("spark.sql.constraintPropagation.enabled", "false")
        # Spark would evaluate a step anew each time that a later one names it, and
        # plan it anew too: plans would grow with every step. So each is computed
        # and kept by itself, on two executors, since nothing computes it again.
        for step in spec["steps"] + [{"name": "icehose_changes", "sql": spec["last"]}]:
            frame, rdd = checkpoint(spark.sql(fill(step["sql"], values)))
            kept.append(rdd)
            frame.createOrReplaceTempView(step["name"])
        counts = spark.sql(fill(spec["count"], values)).collect()[0]
        result["changed"], result["deleted"] = counts["cdc_changed"] or 0, counts["cdc_deleted"] or 0
        noted = notes(spec, end, max(position, read["cdc_highest"] or ""), change)
        if result["changed"] or result["deleted"]:
            with_summary(spark, {**noted, ONTO: str(expected or 0)}, lambda: spark.sql(fill(spec["apply"], values)))
            spark.sql(f"REFRESH TABLE {current}")
            made = spark.sql(
                f"SELECT s.parent_id, s.summary['{MERGED}'] FROM {current}.snapshots AS s JOIN {current}.refs AS r"
                " ON r.name = 'main' AND r.snapshot_id = s.snapshot_id"
            ).collect()
            if not made or made[0][0] != expected or made[0][1] != str(end):
                raise Changed("another run has changed the current table")
    finally:
        spark.conf.set("spark.sql.constraintPropagation.enabled", constraints)
        for rdd in kept:
            rdd.unpersist(False)
    result["warnings"] += note(spark, spec, noted, properties.get(MERGED))
    return result


def merge(spark, spec, rebuild=False):
    """Merges one changelog; returns what was done, or raises."""
    check(spark, spec)
    spark.sql(spec["create"])
    check_own(spark, spec)
    for n in range(1, ATTEMPTS + 1):
        try:
            return attempt(spark, spec, rebuild)
        except Refused:
            raise
        except Exception as err:  # noqa: BLE001
            conflict = isinstance(err, Changed) or any(
                word in str(err) for word in ("ValidationException", "CommitFailedException", "Found conflicting files", "Cannot commit", spec["fenced"])
            )
            if not conflict or n == ATTEMPTS:
                raise


def main(specs, arguments):
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("icehose merge").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    failed = back = False
    for spec in specs:
        try:
            line = merge(spark, spec, "--rebuild" in arguments)
            back = back or line.get("regressed", 0) > 0
        except Exception as err:  # noqa: BLE001
            failed = True
            line = {"table": spec["name"], "current": spec["current_name"], "error": str(err).split("\n")[0]}
        print(json.dumps(line), flush=True)
    spark.stop()
    return 2 if failed else 1 if back else 0
