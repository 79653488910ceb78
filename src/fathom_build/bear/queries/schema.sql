PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -65536;
CREATE TABLE entity (id INTEGER PRIMARY KEY, label TEXT, aliases TEXT, popularity INTEGER, types TEXT);
CREATE TABLE fact (property TEXT, subject INTEGER, object INTEGER, valid_from TEXT, valid_until TEXT);
CREATE TABLE subclass (below INTEGER, above INTEGER);
