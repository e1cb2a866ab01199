"""Compares rows with an independent decoding: python3 oracle.py BINARY SHAPES_DIR

BINARY is the built ./bench/oracle. Two corpora go through it:

  shapes   the records of testdata/events/shapes, every column as a string
  hostile  what a value can be (38-digit decimals, 19-digit integers, 1E-130,
           -0, 1.10, emoji, NUL, lone surrogates, ...) in a column of every
           type, random texts, and rows of 1 MiB

Python's json decodes each record with parse_float=Decimal and parse_int=int,
and this file, not the product, says what each value becomes in a column of
its type, or that the record fails. Everything has to agree: which records are
delivered, and each value, exactly.
"""
import base64
import datetime
import glob
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from decimal import Decimal, localcontext

FAILS = object()  # the record cannot be delivered
NUMBER = re.compile(r"[-+]?(?=\.?[0-9])[0-9]*(\.[0-9]*)?([eE][-+]?[0-9]+)?")
TIMESTAMP = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]+))?(Z?)")
MIB = 1 << 20


class Float(Decimal):
    """A number with a fraction or exponent, which remembers how it was written."""

    def __new__(cls, text):
        self = super().__new__(cls, text)
        self.text = text
        return self


class Int(int):
    def __new__(cls, text):
        self = super().__new__(cls, text)
        self.text = text
        return self


def no_constant(text):
    raise ValueError(f"{text} is not JSON")


def decode(data):
    return json.loads(data.decode("utf-8"), parse_float=Float, parse_int=Int, parse_constant=no_constant)


def spelled(value):
    """A JSON value with its numbers as they were written."""
    if isinstance(value, dict):
        return {k: spelled(v) for k, v in value.items()}
    if isinstance(value, list):
        return [spelled(v) for v in value]
    return ("number", value.text) if isinstance(value, (Float, Int)) else value


class Nested:
    """An object or array, which a string column holds as its JSON text."""

    def __init__(self, value):
        self.value = spelled(value)


def text_of(value):
    """The text that a value stands for, FAILS for one that has none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (Float, Int)):
        return value.text
    if any(0xD800 <= ord(c) <= 0xDFFF for c in value):
        return FAILS
    return value


def integer(text, bits):
    match = NUMBER.fullmatch(text)
    if not match or match[2]:
        return FAILS
    number = Decimal(text)
    if number != number.to_integral_value() or not -(2 ** (bits - 1)) <= int(number) < 2 ** (bits - 1):
        return FAILS
    return str(int(number))


def decimal(text, precision, scale):
    match = NUMBER.fullmatch(text)
    if not match or match[2] and precision > 15:
        return FAILS
    number = Decimal(text)
    if number and number.adjusted() >= precision - scale:
        return FAILS
    with localcontext() as context:
        context.prec = 200
        rounded = number.quantize(Decimal(1).scaleb(-scale)) if not number or number.adjusted() > -150 else Decimal(0)
        if rounded != number:
            return FAILS
        return f"{abs(rounded) if not rounded else rounded:f}"


def boolean(text):
    if text in ("true", "t", "1", "TRUE", "True"):
        return True
    if text in ("false", "f", "0", "FALSE", "False"):
        return False
    return FAILS


def double(text):
    if not NUMBER.fullmatch(text):
        return FAILS
    number, near = Decimal(text), float(text)
    if near in (float("inf"), float("-inf")) or near == 0 and number != 0:
        return FAILS
    return number


def date(text):
    match = re.fullmatch(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", text)
    try:
        return FAILS if not match else datetime.date(*map(int, match.groups())).isoformat()
    except ValueError:
        return FAILS


def timestamp(text, zone):
    if date(text) is not FAILS:
        return text + "T00:00:00.000000" + zone
    match = TIMESTAMP.fullmatch(text)
    if not match or date(match[1]) is FAILS:
        return FAILS
    hour, minute, second = map(int, match[2].split(":"))
    fraction = (match[3] or "").ljust(6, "0")
    if hour > 23 or minute > 59 or second > 59 or fraction[6:].strip("0"):
        return FAILS
    return f"{match[1]}T{match[2]}.{fraction[:6]}{zone}"


TYPES = {
    "string": lambda text: text,
    "int": lambda text: integer(text, 32),
    "long": lambda text: integer(text, 64),
    "decimal(38,10)": lambda text: decimal(text, 38, 10),
    "decimal(38,0)": lambda text: decimal(text, 38, 0),
    "decimal(15,2)": lambda text: decimal(text, 15, 2),
    "decimal(9,9)": lambda text: decimal(text, 9, 9),
    "boolean": boolean,
    "double": double,
    "date": date,
    "timestamp": lambda text: timestamp(text, ""),
    "timestamptz": lambda text: timestamp(text, "Z"),
}


def expected(record, columns):
    """What becomes of a record: None when dropped, FAILS, or values by lake name."""
    try:
        change = decode(record)
    except ValueError:
        return FAILS
    metadata = change["metadata"]
    if metadata["record-type"] == "control" or metadata["table-name"].startswith("awsdms_"):
        return None
    row = {}
    for name, source, kind in columns[f'{metadata["schema-name"]}.{metadata["table-name"]}']:
        value = change["data"].get(source)
        if isinstance(value, (dict, list)):
            value = Nested(value) if kind == "string" else FAILS
        elif value is not None:
            text = text_of(value)
            value = FAILS if text is FAILS else TYPES[kind](text)
        if value is FAILS:
            return FAILS
        row[name] = value
    return row


def same(kind, want, got):
    if want is None or isinstance(want, bool):
        return want is got
    if isinstance(want, Nested):
        return isinstance(got, str) and spelled(decode(got.encode("utf-8", "surrogatepass"))) == want.value
    if isinstance(got, (Int, Float)):
        if kind == "double":
            return Decimal(got) == want
        return kind in ("int", "long") and got.text == want
    return kind not in ("int", "long", "double", "boolean") and want == got


def check(binary, name, columns, records):
    """Sends the records through the binary and compares every answer."""
    with tempfile.TemporaryDirectory() as folder:
        pipeline = os.path.join(folder, "pipeline.yaml")
        with open(pipeline, "w", encoding="utf-8") as file:
            tables = [
                {
                    "source": source, "target": f"t{i}", "mode": "changelog", "position": "none",
                    "columns": [{"name": n, "source": s, "type": k} for n, s, k in fields],
                }
                for i, (source, fields) in enumerate(columns.items())
            ]
            source = {"engine": "postgresql", "position": "postgres", "nulls": "omitted", "unchanged": "never"}
            json.dump({"version": 1, "database": "oracle", "source": source, "tables": tables}, file)
        batches, size = [[]], 0
        for record in records:
            size += len(record)
            if batches[-1] and size > 3 * MIB:
                batches.append([])
                size = len(record)
            batches[-1].append(record)
        arguments = [binary, pipeline]
        for i, batch in enumerate(batches):
            event = {"records": [{"recordId": str(j), "data": base64.b64encode(r).decode()} for j, r in enumerate(batch)]}
            arguments += [os.path.join(folder, f"{i}.event"), os.path.join(folder, f"{i}.response")]
            with open(arguments[-2], "w", encoding="utf-8") as file:
                json.dump(event, file)
        subprocess.run(arguments, check=True)
        counts, values = {"Ok": 0, "Dropped": 0, "ProcessingFailed": 0}, 0
        for i, batch in enumerate(batches):
            with open(os.path.join(folder, f"{i}.response"), encoding="utf-8") as file:
                answers = json.load(file)["records"]
            if [a["recordId"] for a in answers] != [str(j) for j in range(len(batch))]:
                sys.exit(f"{name}: not every record is answered once and in order")
            for record, answer in zip(batch, answers):
                want = expected(record, columns)
                result = "Dropped" if want is None else "ProcessingFailed" if want is FAILS else "Ok"
                if answer["result"] != result:
                    sys.exit(f'{name}: {answer["result"]}, oracle {result}: {record[:2000]!r}')
                counts[result] += 1
                if result != "Ok":
                    if base64.b64decode(answer["data"]) != record:
                        sys.exit(f"{name}: not given back as it came: {record[:2000]!r}")
                    continue
                row = decode(base64.b64decode(answer["data"]))
                metadata = decode(record)["metadata"]
                for column, _, kind in columns[f'{metadata["schema-name"]}.{metadata["table-name"]}']:
                    values += 1
                    if column not in row or not same(kind, want[column], row[column]):
                        sys.exit(f"{name}: {column} {kind}: {row.get(column)!r}, oracle {want[column]!r}: {record[:2000]!r}")
        for result, count in counts.items():
            if count == 0:
                sys.exit(f"{name}: no record was {result}: the corpus is not what it should be")
        print(f"{name}: {len(records)} records, {values} values agree; {counts}")


def shapes(folder):
    columns, records = {}, []
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path, "rb") as file:
            record = file.read()
        records.append(record)
        change = decode(record)
        metadata = change["metadata"]
        if "data" not in change or not metadata.get("schema-name"):
            continue
        fields = columns.setdefault(f'{metadata["schema-name"]}.{metadata["table-name"]}', [])
        for name in change["data"]:
            if name not in [source for _, source, _ in fields]:
                fields.append((f"c{len(fields)}", name, "string"))
    # A record that cannot be read, so that every outcome occurs.
    records.append(records[0][:-3])
    return columns, records


VALUES = """
0 -0 0.0 -0.0 1 -1 1.10 1.0 1.5 -1.5 10 100 0.1 0.01 0.001 -0.004 9.99 12.345 12.340 1e2 1E2 1E+2 1.5e1 -2e-1 1e0 0e5 1E-130 1E130 1e-400 1e400
123456789 1234567890 999999999 2147483647 2147483648 -2147483648 -2147483649 9223372036854775807 9223372036854775808 -9223372036854775808
-9223372036854775809 1234567890123456789 18446744073709551615 9007199254740993 99999999999999.99 999999999999999.99 9999999999999.99 10000000000000.00
12345678901234567890123456789012345678 -12345678901234567890123456789012345678 99999999999999999999999999999999999999 100000000000000000000000000000000000000
1234567890123456789012345678.0123456789 -1234567890123456789012345678.0123456789 1234567890123456789012345678.01234567891 12345678901234567890123456789.0
0.0000000001 0.00000000001 0.123456789 0.1234567891 -0.123456789 1.123456789 0.10000000000000000000000000000000000000000 5e-324 2.5e-324 1.7976931348623157e308
1.7976931348623159e308 3.141592653589793238462643383279502884197 true false null
"true" "false" "t" "f" "1" "0" "TRUE" "False" "yes" "" " " "1.10" "+5" "-0" "007" "1." ".5" "." "1e3" "1_000" " 1" "1 " "NaN" "nan" "Infinity" "-infinity" "0x10" "\\u0031"
12.34e2 1.00e3 1.1234567890e2 0.123456789e1 "12.34x" "12.34 " "12.34e2" "1.1234567890x" "12.34.5" "1-2" "123456x8"
"1E-130" "12345678901234567890123456789012345678" "0.10" "-0.00" "--1" "1e" "1e+" "9223372036854775807" "9223372036854775808" "\\u0000" "a\\u0000b"
"2026-02-11" "2026-02-29" "2024-02-29" "1900-02-29" "2000-02-29" "0000-00-00" "0001-01-01" "9999-12-31" "10000-01-01" "2026-13-01" "2026-00-10" "2026-04-31" "26-01-01"
"2026-02-11T08:20:11Z" "2026-02-11 08:20:11" "2026-02-11T08:20:11.1" "2026-02-11T08:20:11.123456Z" "2026-02-11T08:20:11.123456000Z" "2026-02-11T08:20:11.1234567Z"
"2026-02-11T23:59:59.999999Z" "2026-02-11T24:00:00" "2026-02-11T08:60:00" "2026-02-11T08:20:60Z" "2026-02-29T00:00:00Z" "2026-02-11T08:20" "2026-02-11X08:20:11Z"
"\\ud83d\\ude00" "\\ud83d" "\\ude00" "\\ude00\\ud83d" "\\ud83d\\ud83d\\ude00" "\\uD83D\\uDE00" "\\\\ud83d" "\\\\" "\\"" "\\/" "\\b\\f\\n\\r\\t" "\\u00e9" "\\u2028" "\\uffff" "\\ufffd"
{} [] {"a":[1,"2"]} [[]]
""".split() + ['"plain text"', '"\u043f\u0440\u0438\u0432\u0435\u0442"', '"\U0001f600\U0001f468\u200d\U0001f469"', '"\x7f"', '"e\u0301"', '"quote \\" in text"', '"a,b:{c}[d]"', '"}"']

BROKEN = ["NaN", "Infinity", "-Infinity", "01", "-", "1.", ".5", "+1", "1e", "0x10", "1:", "12:3", "1/2", "1a", "1 2", "tru", "True", "'a'", '"a', '"\\x41"', '"\\u12g4"', '"\\', '"\t"', '"\x01"', "{", "[1,]", '{"a":}', ""]


def record(table, members, operation="insert"):
    return (
        f'{{"data":{{{members}}},"metadata":{{"timestamp":"2026-02-11T08:20:11.093377Z","record-type":"data","operation":"{operation}",'
        f'"partition-key-type":"primary-key","schema-name":"public","table-name":"{table}"}}}}'
    )


def hostile():
    random.seed(20260211)
    kinds = list(TYPES)
    fields = [(f"c{i}", f"c{i}", kind) for i, kind in enumerate(kinds)]
    columns = {"public.typed": fields}
    texts = []
    for value in VALUES + BROKEN:
        for name, _, _ in fields:
            texts.append(record("typed", f'"{name}":{value}'))
            if random.random() < 0.2:  # in the pretty form, and with an escaped key
                texts.append(record("typed", f'\n\t\t"\\u0063{name[1:]}" :\t{value}\n'))
    alphabet = [chr(c) for c in (*range(0x20), *range(0x20, 0x7F), 0xE9, 0x416, 0x20AC, 0x2028, 0xFFFD, 0x1F600, 0x10FFFF)]
    for _ in range(1500):
        members = []
        for name, _, kind in fields:
            if kind == "string":
                text = "".join(random.choices(alphabet, k=random.choice((0, 1, 7, 8, 9, 31, 32, 33, 200))))
                value = json.dumps(text, ensure_ascii=random.random() < 0.5)
            elif kind == "boolean":
                value = random.choice(("true", '"f"', "1"))
            elif kind.startswith("decimal"):
                precision, scale = map(int, kind[8:-1].split(","))
                digits = str(random.randrange(10 ** random.randint(1, precision)))
                value = f"{digits[:-scale] or 0}.{digits[-scale:].rjust(scale, '0')}" if scale else digits
                value = random.choice(("", "-")) + value
                value = random.choice((value, f'"{value}"'))
            elif kind in ("int", "long"):
                value = str(random.randrange(-(2**31), 2**31) >> random.randrange(31))
            elif kind == "double":
                value = repr(random.uniform(-1, 1) * 10 ** random.randint(-300, 300))
            else:
                at = datetime.datetime(2026, 1, 1) + datetime.timedelta(microseconds=random.randrange(10**15))
                value = f'"{at:%Y-%m-%d}"' if kind == "date" else f'"{at:%Y-%m-%dT%H:%M:%S.%f}Z"'
            members.append(f'"{name}":{value}')
        random.shuffle(members)
        texts.append(record("typed", ",".join(members), random.choice(("load", "insert", "update"))))
    string = f"c{kinds.index('string')}"
    for filler in ("x", "\\u0000", "\U0001f600", "\\ud83d\\ude00", '\\"', "\u0416", "ab\\n"):
        size = MIB - 400
        texts.append(record("typed", f'"{string}":"{filler * (size // len(filler.encode()))}"'))
    texts.append(record("typed", f'"{string}":"{"x" * (MIB - 400)}\\ud83d"'))
    records = [text.encode("utf-8") for text in texts]
    good = record("typed", f'"{string}":"?"').encode()
    for bad in (b"\xff", b"\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf0\x9f\x98"):
        records.append(good.replace(b"?", bad))
    for cut in range(0, len(good), 7):
        records.append(good[:cut])
    records += [good + b"x", good + good, b"\xef\xbb\xbf" + good, b" \r\n\t" + good + b"\n"]
    control = good.replace(b'"record-type":"data","operation":"insert"', b'"record-type":"control","operation":"create-table"')
    return columns, records + [control]


def main(binary, folder):
    check(binary, "shapes", *shapes(folder))
    check(binary, "hostile", *hostile())


main(*sys.argv[1:])
