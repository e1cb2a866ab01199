"""Says what statements of Athena read: for computing what Athena would scan.

Standard input is a JSON object: statements, a list of SQL; columns, from
database.table to its columns; views, from database.view to the statement that
creates it. Standard output is a list with one list per statement, of objects with
the table, the columns that are needed of it, and how many times they are read.

Athena keeps no common table expression and no view: what one reads is read once
for each time that it is named. Columns that nothing needs are not read.
"""

import json
import sys

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.pushdown_projections import pushdown_projections
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import build_scope


def name(table):
    return f"{table.db}.{table.name}"


def unfold(tree, views):
    """Puts the queries of views in their places."""
    for table in list(tree.find_all(exp.Table)):
        if name(table) in views:
            query = unfold(sqlglot.parse_one(views[name(table)], dialect="trino").expression, views)
            table.replace(query.subquery(table.alias_or_name))
    return tree


def inline(tree):
    """Puts the queries of common table expressions in their places, of inner ones first."""
    for ctes in reversed(list(tree.find_all(exp.With))):
        query = ctes.parent
        for cte in ctes.expressions:
            for table in list(query.find_all(exp.Table)):
                if not table.db and table.name == cte.alias and table.find_ancestor(exp.CTE) is not cte:
                    table.replace(cte.this.copy().subquery(table.alias_or_name))
        ctes.pop()
    return tree


def queries(statement):
    """The queries that a statement runs, and the columns that it needs of the table that it changes."""
    if isinstance(statement, exp.Merge):
        target, source = statement.this, statement.args["using"]
        names = {c.name for part in ("on", "whens") for c in statement.args[part].find_all(exp.Column) if c.table == target.alias_or_name}
        plain = target.copy()
        plain.set("alias", None)
        return [exp.select("*").from_(source.copy()), exp.select(*[exp.column(n, quoted=True) for n in sorted(names)]).from_(plain)]
    if isinstance(statement, exp.Delete):
        return [exp.select(exp.Literal.number(1)).from_(statement.this.copy()).where(statement.args["where"].this.copy())]
    return [statement]


def visit(scope, out):
    """Counts what a scope reads, as often as it is named."""
    for part in scope.set_operation_scopes + scope.subquery_scopes:
        visit(part, out)
    if scope.set_operation_scopes:
        return
    for alias, (_, source) in scope.selected_sources.items():
        if not isinstance(source, exp.Table):
            visit(source, out)
        elif "$" not in source.name:
            needed = tuple(sorted({c.name for c in scope.columns if c.table == alias and not c.name.startswith("$")}))
            out[name(source), needed] = out.get((name(source), needed), 0) + 1


def reads(statement, schema, views):
    out = {}
    for query in queries(sqlglot.parse_one(statement, dialect="trino")):
        query = qualify(inline(unfold(query, views)), dialect="trino", schema=schema, validate_qualify_columns=False)
        visit(build_scope(pushdown_projections(query)), out)
    return [{"table": table, "columns": list(columns), "times": times} for (table, columns), times in out.items()]


def main():
    request = json.load(sys.stdin)
    schema = {}
    for table, columns in request["columns"].items():
        database, plain = table.split(".")
        schema.setdefault(database, {})[plain] = {c: "varchar" for c in columns}
    json.dump([reads(s, schema, request["views"]) for s in request["statements"]], sys.stdout)


if __name__ == "__main__":
    main()
