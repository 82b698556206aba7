"""The database of the tests: a shop, on both engines. Users have columns that are not listed; cards and margins are not listed at all."""

import hashlib
import pathlib
import sqlite3

TABLES = {"products": True, "orders": True, "users": ["id", "name"], "cheap": True, "notes": ["id", "body"]}

COMMON = """
INSERT INTO products (id, name, price, category, added) VALUES
  (1, 'lamp', 19.99, 'home', '2026-01-05'), (2, 'desk', 249.5, 'home', '2026-02-01'), (3, 'pen', 1.25, 'office', '2026-02-11'),
  (4, 'Größe Ω', 7, 'office', '2026-03-01'), (5, 'chair', 89, 'home', NULL);
INSERT INTO orders (id, product_id, quantity, customer) VALUES (1, 1, 2, 1), (2, 3, 100, 2), (3, 3, 50, 1), (4, 5, 1, 2), (5, 2, 1, NULL);
INSERT INTO users (id, name, email, password_hash) VALUES (1, 'ada', 'ada@example.org', 'HASH-ada'), (2, 'bob', 'bob@example.org', 'HASH-bob');
INSERT INTO credit_cards (id, number) VALUES (1, '4111-SECRET'), (2, '4222-SECRET');
INSERT INTO margins (product_id, margin) VALUES (1, 40), (3, 10);
INSERT INTO notes (id, body, owner) VALUES (1, 'first', 'OWNER-ada');
CREATE VIEW cheap AS SELECT p.id, p.name FROM products p JOIN margins m ON m.product_id = p.id WHERE m.margin < 20;
CREATE VIEW all_cards AS SELECT * FROM credit_cards;
"""

SQLITE = """
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, price REAL, category TEXT, added TEXT, attrs TEXT DEFAULT '{"color": "red", "tags": ["a", "b"]}', image BLOB DEFAULT x'00ff10');
CREATE TABLE orders (id INTEGER PRIMARY KEY, product_id INTEGER REFERENCES products, quantity INTEGER, customer INTEGER);
CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, email TEXT, password_hash TEXT);
CREATE TABLE credit_cards (id INTEGER PRIMARY KEY, number TEXT);
CREATE TABLE margins (product_id INTEGER, margin INTEGER);
CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT, owner TEXT DEFAULT 'nobody', made TEXT DEFAULT 'then');
CREATE TABLE trail (what TEXT);
CREATE TRIGGER note_trail AFTER INSERT ON notes BEGIN INSERT INTO trail VALUES ('note ' || new.id); END;
"""

POSTGRES = """
CREATE TABLE products (id int PRIMARY KEY, name text, price numeric(10,2), category text, added date, attrs jsonb DEFAULT '{"color": "red", "tags": ["a", "b"]}', image bytea DEFAULT '\\x00ff10');
CREATE TABLE orders (id int PRIMARY KEY, product_id int REFERENCES products, quantity int, customer int);
CREATE TABLE users (id int PRIMARY KEY, name text, email text, password_hash text);
CREATE TABLE credit_cards (id int PRIMARY KEY, number text);
CREATE TABLE margins (product_id int, margin int);
CREATE TABLE notes (id int PRIMARY KEY, body text, owner text DEFAULT 'nobody', made text DEFAULT 'then');
CREATE TABLE trail (what text);
CREATE SEQUENCE counter;
CREATE FUNCTION add_trail() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$ BEGIN INSERT INTO trail VALUES ('note ' || new.id); RETURN new; END $$;
CREATE TRIGGER note_trail AFTER INSERT ON notes FOR EACH ROW EXECUTE FUNCTION add_trail();
CREATE FUNCTION vat(x numeric) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT x * 0.2';
CREATE FUNCTION wipe(x int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN DELETE FROM public.orders; RETURN x; END $$;
CREATE TYPE pair AS (a int, b text);
CREATE TABLE parent (id int); CREATE TABLE child (extra text) INHERITS (parent);
"""

# Everything of the server that a statement could have changed, in one text.
STATE = """
SELECT 'products', md5(string_agg(t::text, '|' ORDER BY t::text)) FROM public.products t UNION ALL
SELECT 'orders', md5(string_agg(t::text, '|' ORDER BY t::text)) FROM public.orders t UNION ALL
SELECT 'users', md5(string_agg(t::text, '|' ORDER BY t::text)) FROM public.users t UNION ALL
SELECT 'credit_cards', md5(string_agg(t::text, '|' ORDER BY t::text)) FROM public.credit_cards t UNION ALL
SELECT 'margins', md5(string_agg(t::text, '|' ORDER BY t::text)) FROM public.margins t UNION ALL
SELECT 'notes', md5(string_agg(t::text, '|' ORDER BY t::text)) FROM public.notes t UNION ALL
SELECT 'trail', md5(string_agg(t::text, '|' ORDER BY t::text)) FROM public.trail t UNION ALL
SELECT 'counter', last_value || ' ' || is_called FROM public.counter UNION ALL
SELECT 'relations', md5(string_agg(concat_ws(' ', relname, relkind, relnamespace, relfilenode), '|' ORDER BY oid)) FROM pg_class WHERE relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname LIKE 'pg\\_%') UNION ALL
SELECT 'functions', count(*)::text FROM pg_proc UNION ALL
SELECT 'types', count(*)::text FROM pg_type UNION ALL
SELECT 'roles', md5(string_agg(r::text, '|' ORDER BY rolname)) FROM pg_authid r UNION ALL
SELECT 'databases', md5(string_agg(datname, '|' ORDER BY datname)) FROM pg_database UNION ALL
SELECT 'settings', md5(string_agg(s::text, '|')) FROM pg_db_role_setting s UNION ALL
SELECT 'objects', count(*)::text FROM pg_largeobject_metadata UNION ALL
SELECT 'files', md5(string_agg(name, '|' ORDER BY name)) FROM pg_ls_dir('.') AS f (name) UNION ALL
SELECT 'locks', count(*)::text FROM pg_locks WHERE locktype = 'advisory' ORDER BY 1;
"""


def make_sqlite(path):
    db = sqlite3.connect(path)
    db.executescript(SQLITE + COMMON)
    db.close()
    return pathlib.Path(path)


def sqlite_state(path):
    """The bytes of the file, and what lies beside it."""
    return hashlib.sha256(path.read_bytes()).hexdigest(), sorted(p.name for p in path.parent.iterdir())
