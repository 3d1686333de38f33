-- Answers with an error code, by who gave them to whom.
select run, node, source, request, error, count(*) as answers, sum("count")::bigint as times,
    min(time_us) as first_us, max(time_us) as last_us
from ErrorAnswered group by run, node, source, request, error
