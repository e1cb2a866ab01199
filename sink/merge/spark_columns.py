# The columns of the changelog and of the current table: part of the script.

FIELDS = "icehose.merged-fields"


def iceberg_table(spark, table):
    """Iceberg's own table, which knows field ids and earlier schemas."""
    return spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)


def fields_text(log, places):
    return log.uuid().toString() + ":" + ",".join(f"{number} {name}" for name, number in places if number)


def fields_note(spark, spec):
    """Which columns of the changelog those of the current table are, once they have their names: see PropertyFields."""
    log = iceberg_table(spark, spec["log"])
    return fields_text(log, [(name, log.schema().findField(name).fieldId()) for name in spec["data"]])


def noted_fields(text, log):
    of, _, listed = text.partition(":")
    if of != log.uuid().toString():
        return {}
    return {name: int(number) for number, _, name in (entry.partition(" ") for entry in listed.split(",") if entry)}


def field_of(log, column):
    """The field id of a column of this name in the newest schema of the changelog that had one, of this type if there was one."""
    by_name = 0
    for schema in [log.schema(), *sorted(log.schemas().values(), key=lambda s: -s.schemaId())]:
        had = schema.findField(column.name())
        if had is not None and had.type().equals(column.type()):
            return had.fieldId()
        if had is not None and not by_name:
            by_name = had.fieldId()
    return by_name


def places(spec, log, current, noted):
    """Where each column of the current table that is the changelog's belongs: its name, field id and new name, None for one that goes."""
    found = []
    for column in current.schema().columns():
        name = column.name()
        if name.startswith("cdc_"):
            continue
        number = noted.get(name) or field_of(log, column)
        now = log.schema().findField(number) if number else None
        if now is not None:
            if now.name() in spec["data"]:
                found.append((name, number, now.name()))
        elif number:
            found.append((name, number, None))
        elif name in spec["renamed"]:
            found.append((name, 0, spec["renamed"][name]))
    taken = {name for name, _, to in found if name == to}
    for n, (name, number, to) in enumerate(found):
        if to is not None and to != name:
            found[n] = (name, number, None if to in taken else to)
            taken.add(to)
    return found


def step(found, key):
    """What one commit can do: columns that go, renames, and where the others then belong.

    Of names that change places one column must go, to be added anew: its values
    come back with the fold. A column of the key cannot.
    """
    drops = [name for name, _, to in found if to is None]
    occupied = {name for name, _, to in found if to is not None}
    renames = {name: to for name, _, to in found if to is not None and to != name and to not in occupied}
    if not drops and not renames:
        drops = [name for name, _, to in found if to != name and name not in key][:1]
    return drops, renames


def move_columns(spark, spec):
    """Renames and drops in the current table what has been renamed and dropped in the changelog.

    Takes one step, a commit with its own note, after which every key is folded anew;
    reports whether there was one to take.
    """
    spark.sql(f"REFRESH TABLE {spec['current']}")
    log, current = iceberg_table(spark, spec["log"]), iceberg_table(spark, spec["current"])
    properties = dict(current.properties())
    found = places(spec, log, current, noted_fields(properties.get(FIELDS, ""), log))
    new_names = {name: to for name, _, to in found if to is not None}
    noted = properties.get("icehose.merged-key", spec["key"])
    key = ",".join(new_names.get(name, name) for name in noted.split(","))
    if key != spec["key"]:
        raise Refused(
            f"the current table was merged by the key ({key}), the pipeline file says ({spec['key']}): drop {spec['current_name']},"
            " and the next merge makes it anew"
        )
    if all(name == to for name, _, to in found):
        return False
    drops, renames = step(found, noted.split(","))
    if not drops and not renames:
        raise Refused(f"columns of the key have changed places: drop {spec['current_name']}, and the next merge makes it anew")
    left = [(renames.get(name, name), number) for name, number, _ in found if name not in drops]
    change = current.newTransaction()
    columns = change.updateSchema()
    for name in drops:
        columns.deleteColumn(name)
    for name, to in renames.items():
        columns.renameColumn(name, to)
    columns.commit()
    notes = change.updateProperties().set(FIELDS, fields_text(log, left)).set("icehose.merged-columns", "")
    if "icehose.merged-key" in properties:
        notes.set("icehose.merged-key", ",".join(renames.get(name, name) for name in noted.split(",")))
    notes.commit()
    change.commitTransaction()
    return True


def as_of(spark, spec, end):
    """The relation of the changelog as of a snapshot, with the columns that it has now.

    Spark reads a snapshot with those of when it was made.
    """
    log, table = spec["log"], iceberg_table(spark, spec["log"])
    then = spark._jvm.org.apache.iceberg.util.SnapshotUtil.schemaFor(table, end)
    items, same = [], True
    for field in spark.table(log).schema.fields:
        if field.name not in spec["columns"]:
            continue
        now = table.schema().findField(field.name)
        had = then.findField(now.fieldId())
        name, kind = f"`{field.name}`", field.dataType.simpleString()
        if had is None:
            item = f"CAST(NULL AS {kind}) AS {name}"
        elif not had.type().equals(now.type()):
            item = f"CAST(`{had.name()}` AS {kind}) AS {name}"
        elif had.name() != field.name:
            item = f"`{had.name()}` AS {name}"
        else:
            item = name
        items.append(item)
        same = same and item == name
    plain = f"{log} VERSION AS OF {end}"
    return plain if same else f"(SELECT {', '.join(items)} FROM {plain})"


def check_own(spark, spec):
    """Refuses a table that has the current table's name and was made for something else."""
    properties = properties_of(spark, spec["current"])
    if any(name in properties for name in ("icehose.merged-snapshot", "icehose.merged-key", "icehose.merged-columns")):
        return
    have = {field.name for field in spark.table(spec["current"]).schema.fields}
    fits = "cdc_position" in have and "cdc_operation" not in have and ("cdc_unresolved" in have) == bool(spec["key"])
    if not fits or properties.get("icehose.commit-id"):
        raise Refused(
            f"{spec['current_name']} is no current table of {spec['name']}, although it has the name: give one of them another target:,"
            f" or drop {spec['current_name']}"
        )
