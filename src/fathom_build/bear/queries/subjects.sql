SELECT COUNT(*), SUM(answers > 1)
FROM (SELECT COUNT(DISTINCT object) AS answers FROM fact WHERE property = ? GROUP BY subject)
