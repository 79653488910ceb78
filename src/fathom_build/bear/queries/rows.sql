WITH single AS (
  SELECT subject, object,
    MIN(valid_from) AS valid_from,
    CASE WHEN MIN(valid_until) = '' THEN '' ELSE MAX(valid_until) END AS valid_until
  FROM fact WHERE property = :property GROUP BY subject, object
), counted AS (
  SELECT single.*, COUNT(*) OVER (PARTITION BY subject) AS answers, MIN(object) OVER (PARTITION BY subject) AS least,
    ROW_NUMBER() OVER (PARTITION BY subject ORDER BY COALESCE(popularity, 0) DESC, object) AS place
  FROM single LEFT JOIN entity ON entity.id = object
)
SELECT c.subject, s.label, COALESCE(s.popularity, 0), s.types, c.object, o.label, COALESCE(o.popularity, 0), o.types,
  o.aliases, c.valid_from, c.valid_until, c.answers, c.least, c.place
FROM counted c LEFT JOIN entity s ON s.id = c.subject LEFT JOIN entity o ON o.id = c.object
WHERE c.object != 0 ORDER BY c.object, COALESCE(s.popularity, 0) DESC, c.subject
