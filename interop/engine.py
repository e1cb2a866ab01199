"""Runs statements on an engine that is not ours, for the tests of this folder.

Arguments: spark, trino, duckdb or pyiceberg; then settings as NAME=VALUE: lake
(the folder of a lake), jars (for Spark, comma-separated), runner (the file of
the merge on Spark), counting (anything, for a Spark that counts what it reads
and writes, with CountingFileIO among the jars), port (of a Trino on this machine).

Requests come as lines of JSON on standard input, each with one of
  sql     a statement; the answer has its rows. For duckdb with dialect, that of
          the statement, which is translated; for spark with summary, properties
          of the snapshot that it makes
  find    database.table, with column and value: its rows that have the value there
  scan    database.table, with columns and, for time travel, snapshot
  merge   a spec for the runner's merge, with rebuild; the answer is its result.
          The statements, or specs to merge, of between run once when it has read
          and is about to write
  kept    anything; the answer is how many frames the engine keeps
  noop    a query whose rows are computed, and not looked at
  counted anything; the answer has the bytes that were read and written since the
          last such request, per table and kind of file
  process anything; the answer is the number of the engine's process
and answers go as lines of JSON to standard output: rows, result or error; of a
Trino also updated, the rows that a statement has changed. Each value of a row is
null or a text in the form that PostgreSQL writes.
"""

import datetime
import decimal
import importlib.util
import json
import os
import sys
import time
import uuid

os.environ["TZ"] = "UTC"


def text(value):
    """The text of a value, as PostgreSQL would write it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, (bytes, bytearray)):
        return "\\x" + bytes(value).hex()
    if isinstance(value, datetime.datetime):
        zone = ""
        if value.tzinfo is not None:
            value, zone = value.astimezone(datetime.timezone.utc), "+00"
        return f"{value.year:04d}" + value.strftime("-%m-%d %H:%M:%S.%f") + zone
    if isinstance(value, datetime.date):
        return f"{value.year:04d}" + value.strftime("-%m-%d")
    if isinstance(value, datetime.time):
        return value.strftime("%H:%M:%S.%f")
    if isinstance(value, (int, uuid.UUID)):
        return str(value)
    raise TypeError(f"no text for a value of {type(value).__name__}")


class Spark:
    def __init__(self, settings):
        from pyspark.sql import SparkSession

        catalog = "spark.sql.catalog.icehose"
        conf = {
            "spark.jars": settings["jars"],
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            catalog + ".type": "jdbc",
            catalog + ".uri": f"jdbc:sqlite:{settings['lake']}/catalog.db?busy_timeout=10000",
            catalog + ".warehouse": f"file:{settings['lake']}/warehouse",
            catalog + ".jdbc.schema-version": "V1",
            # Others write these tables too, and are to be seen at once.
            catalog + ".cache-enabled": "false",
            "spark.sql.defaultCatalog": "icehose",
            "spark.sql.session.timeZone": "UTC",
            # Tests have few rows and many statements: what counts is how long
            # one takes to plan and to start.
            "spark.sql.shuffle.partitions": settings.get("partitions", "1"),
            "spark.default.parallelism": settings.get("partitions", "1"),
            "spark.sql.adaptive.enabled": settings.get("adaptive", "false"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": settings.get("memory", "2g"),
            "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:ReservedCodeCacheSize=240m -Xlog:disable -Xlog:all=warning:stderr " + settings.get("java", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
        }
        if "counting" in settings:
            conf[catalog + ".io-impl"] = "icehose.interop.CountingFileIO"
        builder = SparkSession.builder.master("local[2]").appName("interop")
        for name, value in conf.items():
            builder = builder.config(name, value)
        self.session = builder.getOrCreate()
        self.session.sparkContext.setLogLevel("OFF")
        self.renew_connections()
        self.runner = None
        if "runner" in settings:
            found = importlib.util.spec_from_file_location("runner", settings["runner"])
            self.runner = importlib.util.module_from_spec(found)
            found.loader.exec_module(self.runner)

    def renew_connections(self):
        """Replaces the connections with which Iceberg has opened the catalog.

        It leaves a query open on them (JdbcUtil, as of 1.10). On SQLite such a
        connection never sees what others commit, and keeps them from it.
        """

        def field(value, name):
            kind = value.getClass()
            while True:
                try:
                    found = kind.getDeclaredField(name)
                    break
                except Exception:  # noqa: BLE001
                    kind = kind.getSuperclass()
            found.setAccessible(True)
            return found.get(value)

        catalog = self.session._jsparkSession.sessionState().catalogManager().catalog("icehose").icebergCatalog()
        pool = field(catalog, "connections")
        clients = field(pool, "clients")
        connect = pool.getClass().getDeclaredMethod("newClient", None)
        connect.setAccessible(True)
        for _ in range(clients.size()):
            clients.pollFirst().close()
            clients.addLast(connect.invoke(pool, None))

    def rows(self, frame):
        # Python's own times do not reach as far as Spark's do.
        kinds = {"timestamp": "+00", "timestamp_ntz": ""}
        zones = [kinds.get(kind) for _, kind in frame.dtypes]
        columns = [frame.columns[i] for i in range(len(zones))]
        frame = frame.toDF(*[f"c{i}" for i in range(len(columns))])
        frame = frame.selectExpr(*[f"CAST(c{i} AS STRING)" if zone is not None else f"c{i}" for i, zone in enumerate(zones)])
        return [[v + zones[i] if v is not None and zones[i] is not None else text(v) for i, v in enumerate(row)] for row in frame.collect()]

    def sql(self, statement):
        return self.rows(self.session.sql(statement))

    def find(self, table, column, value):
        return self.sql(f"SELECT `{column}` FROM {table} WHERE `{column}` = '{value}'")

    def scan(self, table, columns, snapshot):
        database, name = table.split(".")
        travel = f" VERSION AS OF {snapshot}" if snapshot else ""
        listed = ", ".join(f"`{c}`" for c in columns)
        return self.sql(f"SELECT {listed} FROM `{database}`.`{name}`{travel}")

    def merge(self, spec, rebuild, between):
        write = self.runner.with_summary

        def overtaken(spark, properties, run):
            self.runner.with_summary = write
            for one in between:
                if isinstance(one, str):
                    self.sql(one)
                else:
                    self.runner.merge(spark.newSession(), one)  # whose views are its own
            return write(spark, properties, run)

        if between:
            self.runner.with_summary = overtaken
        try:
            return self.runner.merge(self.session, spec, rebuild)
        finally:
            self.runner.with_summary = write

    def kept(self):
        return self.session.sparkContext._jsc.getPersistentRDDs().size()

    def noop(self, query):
        self.session.sql(query).write.format("noop").mode("overwrite").save()

    def process(self):
        return self.session._jvm.java.lang.ProcessHandle.current().pid()

    def counted(self):
        return dict(self.session._jvm.icehose.interop.CountingFileIO.take())


class Trino:
    def __init__(self, settings):
        import trino

        self.connection = trino.dbapi.connect(host="127.0.0.1", port=int(settings["port"]), user="interop", catalog="lake", timezone="UTC")

    def run(self, statement):
        cursor = self.connection.cursor()
        cursor.execute(statement)
        return cursor, cursor.fetchall()

    def sql(self, statement):
        import trino

        for left in reversed(range(100)):
            try:
                cursor, rows = self.run(statement)
                break
            except trino.exceptions.TrinoQueryError as err:
                # A server that has just started may not know itself yet.
                if err.error_name != "NO_NODES_AVAILABLE" or left == 0:
                    raise
                time.sleep(0.3)
        self.updated = max(0, cursor.rowcount)
        return [[text(v) for v in row] for row in rows]

    def find(self, table, column, value):
        return self.sql(f"""SELECT "{column}" FROM {table} WHERE "{column}" = '{value}'""")

    def scan(self, table, columns, snapshot):
        database, name = table.split(".")
        travel = f" FOR VERSION AS OF {snapshot}" if snapshot else ""
        listed = ", ".join(f'"{c}"' for c in columns)
        return self.sql(f'SELECT {listed} FROM "{database}"."{name}"{travel}')


class Arrow:
    """Engines that give tables of Arrow."""

    def texts(self, table):
        columns = [[text(v) for v in column.to_pylist()] for column in table.columns]
        return [list(row) for row in zip(*columns)]


class PyIceberg(Arrow):
    def __init__(self, settings):
        from pyiceberg.catalog.sql import SqlCatalog

        self.catalog = SqlCatalog("icehose", uri=f"sqlite:///{settings['lake']}/catalog.db", warehouse=f"file://{settings['lake']}/warehouse")

    def find(self, table, column, value):
        from pyiceberg.expressions import EqualTo

        return self.texts(self.catalog.load_table(table).scan(row_filter=EqualTo(column, value), selected_fields=(column,)).to_arrow())

    def scan(self, table, columns, snapshot):
        found = self.catalog.load_table(table)
        return self.texts(found.scan(selected_fields=tuple(columns), snapshot_id=snapshot or None).to_arrow().select(columns))


class DuckDB(Arrow):
    def __init__(self, settings):
        import duckdb
        import duckdb_extensions

        for name in ("icu", "avro", "iceberg"):
            duckdb_extensions.import_extension(name)
        self.db = duckdb.connect()
        for name in ("icu", "avro", "iceberg"):
            self.db.execute(f"LOAD {name}")
        self.db.execute("SET TimeZone = 'UTC'")
        self.files = PyIceberg(settings) if "lake" in settings else None  # which metadata file is the newest, only the catalog knows

    def translated(self, statement, dialect):
        import sqlglot

        def by_number(node):
            # A ROW of Trino's has no names, and is asked for its parts by number.
            exp = sqlglot.exp
            if dialect == "athena" and isinstance(node, exp.Bracket) and isinstance(node.this, exp.Paren):
                number = exp.Literal.number(int(node.expressions[0].this) + 1)  # sqlglot counts from 0
                return exp.Anonymous(this="STRUCT_EXTRACT_AT", expressions=[node.this, number])
            return node

        for one in sqlglot.parse(statement, read=dialect):
            # Trino and Spark take the value of the greatest position even if it is null.
            self.db.execute(one.transform(by_number).sql(dialect="duckdb").replace("ARG_MAX(", "ARG_MAX_NULL("))
        return self.texts(self.db.to_arrow_table()) if self.db.description else []

    def sql(self, statement):
        return self.texts(self.db.execute(statement).to_arrow_table())

    def find(self, table, column, value):
        location = self.files.catalog.load_table(table).metadata_location
        return self.sql(f"""SELECT "{column}" FROM iceberg_scan('{location}') WHERE "{column}" = '{value}'""")

    def scan(self, table, columns, snapshot):
        location = self.files.catalog.load_table(table).metadata_location
        listed = ", ".join(f'"{c}"' for c in columns)
        travel = f", snapshot_from_id = {snapshot}" if snapshot else ""
        return self.sql(f"SELECT {listed} FROM iceberg_scan('{location}'{travel})")


def answer(engine, request):
    if "dialect" in request:
        return {"rows": engine.translated(request["sql"], request["dialect"])}
    if "summary" in request:
        engine.runner.with_summary(engine.session, request["summary"], lambda: engine.sql(request["sql"]))
        return {}
    if "sql" in request:
        return {"rows": engine.sql(request["sql"]), "updated": getattr(engine, "updated", 0)}
    if "find" in request:
        return {"rows": engine.find(request["find"], request["column"], request["value"])}
    if "scan" in request:
        return {"rows": engine.scan(request["scan"], request["columns"], request.get("snapshot"))}
    if "noop" in request:
        engine.noop(request["noop"])
        return {}
    if "process" in request:
        return {"process": engine.process()}
    if "counted" in request:
        return {"counted": engine.counted()}
    if "kept" in request:
        return {"kept": engine.kept()}
    return {"result": engine.merge(request["merge"], request.get("rebuild", False), request.get("between", []))}


def main(name, *settings):
    engine = {"spark": Spark, "trino": Trino, "duckdb": DuckDB, "pyiceberg": PyIceberg}[name](dict(s.split("=", 1) for s in settings))
    # The engine's own words go to standard error from here on.
    out, sys.stdout = sys.stdout, sys.stderr
    print(json.dumps({"ready": name}), file=out, flush=True)
    for line in sys.stdin:
        try:
            reply = answer(engine, json.loads(line))
        except Exception as err:  # noqa: BLE001
            reply = {"error": f"{type(err).__name__}: {err}"}
        print(json.dumps(reply), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
