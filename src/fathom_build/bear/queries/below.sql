WITH RECURSIVE below (id) AS (VALUES {} UNION SELECT subclass.below FROM subclass JOIN below ON above = below.id)
SELECT id FROM below
