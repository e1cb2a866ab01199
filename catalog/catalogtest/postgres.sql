-- A PostgreSQL schema with the traps of a catalog reader in it.
CREATE SCHEMA sales;
CREATE TYPE sales.mood AS ENUM ('sad', 'it''s ok', 'happy');
CREATE TYPE sales.address AS (street text, zip character(5));
CREATE TYPE sales.span AS RANGE (subtype = integer);
CREATE DOMAIN sales.email AS character varying(120) DEFAULT 'nobody' NOT NULL;
CREATE DOMAIN sales.work_email AS sales.email;

CREATE TABLE sales."Orders" (
    id bigint GENERATED ALWAYS AS IDENTITY,
    "Total" numeric(12,2) DEFAULT 0.00 NOT NULL,
    rate numeric,
    wide numeric(50,10),
    state sales.mood DEFAULT 'sad'::sales.mood,
    ship_to sales.address,
    slots sales.span,
    mail sales.work_email,
    tags text[] DEFAULT '{}'::text[],
    lines integer[][],
    flag "char",
    code char,
    placed timestamp(3) with time zone DEFAULT now() NOT NULL,
    due time(0) without time zone,
    took interval day to second(3),
    bits bit varying(12),
    note text DEFAULT NULL,
    "select" boolean DEFAULT true,
    doc jsonb,
    double_total numeric GENERATED ALWAYS AS ("Total" * 2) STORED,
    CONSTRAINT orders_total CHECK ("Total" >= 0),
    PRIMARY KEY (id)
);
COMMENT ON TABLE sales."Orders" IS 'What was sold; it''s all here';
COMMENT ON COLUMN sales."Orders"."Total" IS 'with tax';

CREATE TABLE sales.pair (
    b character(3) NOT NULL,
    a serial,
    label character varying(10) DEFAULT 'it''s' NOT NULL,
    n smallint DEFAULT -1,
    PRIMARY KEY (b, a)
);
CREATE TABLE sales.keyless (
    at timestamp without time zone DEFAULT '2020-01-01 00:00:00' NOT NULL,
    what character varying(24)
);
ALTER TABLE sales.keyless REPLICA IDENTITY FULL;

-- Rows of at most 2032 bytes, so nothing is ever out of line; one column more and all are.
CREATE TABLE sales.narrow (
    id integer PRIMARY KEY,
    a character varying(240), b character varying(240), c character(2), d numeric(10,2)
);
CREATE TABLE sales.wide (
    id integer PRIMARY KEY,
    a character varying(240), b character varying(260), c character(2), d numeric(10,2), e numeric(200,2), f text
);
ALTER TABLE sales.wide ALTER COLUMN f SET STORAGE PLAIN;

CREATE TABLE sales.event (
    id bigint NOT NULL,
    day date NOT NULL,
    body text,
    PRIMARY KEY (id, day)
) PARTITION BY RANGE (day);
CREATE TABLE sales.event_2020 PARTITION OF sales.event FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
CREATE TABLE sales.event_old (id bigint NOT NULL, day date NOT NULL, body text, PRIMARY KEY (id, day));
ALTER TABLE sales.event ATTACH PARTITION sales.event_old FOR VALUES FROM ('2000-01-01') TO ('2020-01-01');

CREATE TABLE sales.base (id integer PRIMARY KEY, name text);
CREATE TABLE sales.special (extra integer, id integer DEFAULT 7) INHERITS (sales.base);
ALTER TABLE ONLY sales.special ADD CONSTRAINT special_pkey PRIMARY KEY (id);

CREATE UNLOGGED TABLE sales.scratch (id integer PRIMARY KEY);
CREATE VIEW sales.totals AS SELECT count(*) AS n FROM sales."Orders";
CREATE TABLE public.gone (id integer, keep integer);
ALTER TABLE public.gone DROP COLUMN id;
ALTER TABLE public.gone ADD COLUMN added character varying(5) DEFAULT 'x' NOT NULL;
CREATE FUNCTION public.body() RETURNS text LANGUAGE sql AS $$ SELECT 'CREATE TABLE public.fake (id integer);'::text $$;
