"""Parses generated SQL with sqlglot, in the dialect that the folder is named after.

Arguments: folders that hold athena/ and spark/. Statements that sqlglot has no
grammar for (it keeps them as a Command) must have one of the exact forms below.
"""

import logging
import pathlib
import re
import sys

import sqlglot
from sqlglot import exp

NAME = r"[a-z_][a-z0-9_]*"
QUOTED = rf"`{NAME}`"
PROPERTY = r"'[a-z_]+' = '\d+'"
OPTION = r"'[a-z-]+', '(\d+|true)'"
COMMANDS = {
    "athena": [
        rf"OPTIMIZE {NAME}\.{NAME} REWRITE DATA USING BIN_PACK",
        rf"VACUUM {NAME}\.{NAME}",
        rf"ALTER TABLE {QUOTED}\.{QUOTED} SET TBLPROPERTIES \({PROPERTY}(, {PROPERTY})*\)",
    ],
    "spark": [
        rf"CALL system\.{NAME}\(table => '{NAME}\.{NAME}'(, options => map\({OPTION}(, {OPTION})*\)|, older_than => current_timestamp\(\))?(, retain_last => \d+)?\)",
        rf"ALTER TABLE {QUOTED}\.{QUOTED} SET IDENTIFIER FIELDS {QUOTED}(, {QUOTED})*",
    ],
}


def problem(dialect, statement):
    if not list(statement.find_all(exp.Command)):
        return None
    statement.pop_comments()
    text = statement.sql(dialect=dialect, comments=False)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"\s+", " ", text).strip()
    if any(re.fullmatch(form, text) for form in COMMANDS[dialect]):
        return None
    return f"not a statement of {dialect}: {text[:120]}"


def filled(text):
    """Replaces tokens by numbers, and takes out what only Spark 4 itself reads."""
    text = re.sub(r"\$\{[a-z_]+\}", "1", text)
    return re.sub(r" WITH \('start-snapshot-id' = '1', 'end-snapshot-id' = '1'\)", "", text)


def main(folders):
    logging.disable(logging.CRITICAL)  # sqlglot warns of each Command
    parsed, failed = 0, 0
    for folder in folders:
        for dialect in COMMANDS:
            for path in sorted(pathlib.Path(folder, dialect).glob("*.sql")):
                try:
                    statements = sqlglot.parse(filled(path.read_text()), read=dialect, error_level=sqlglot.ErrorLevel.RAISE)
                    problems = [p for s in statements if s is not None and (p := problem(dialect, s))]
                    parsed += sum(s is not None for s in statements)
                except sqlglot.errors.SqlglotError as err:
                    problems = [str(err)]
                for p in problems:
                    failed += 1
                    print(f"{path}: {p}", file=sys.stderr)
    if not parsed:
        print("no SQL found", file=sys.stderr)
        return 1
    print(f"{parsed} statements parsed, {failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
