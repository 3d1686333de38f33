-- Who asked whom for what; what was not answered is an error, and the most frequent one is named.
-- A call is a retry if its cause is a message by which a channel or a fetcher tries again.
with again as (
    select run, id from MessageHandled
    where regexp_matches(actor, '/controller/channel-[0-9]+$') and message = '_Again'
       or regexp_matches(actor, '/fetcher-[0-9-]+$') and message = '_Rested'
),
errors as (
    select run, source, destination, request, outcome, count(*) as times
    from CallFinished where outcome <> 'ok' group by all
)
select run, source, destination, request, count(*) as calls,
    sum(request_bytes)::bigint as request_bytes, sum(response_bytes)::bigint as response_bytes,
    share(latency_us, 50) as latency_p50_us, share(latency_us, 95) as latency_p95_us,
    share(latency_us, 99) as latency_p99_us, max(latency_us) as latency_max_us,
    sum(latency_us)::bigint as latency_total_us, count(*) filter (outcome <> 'ok') as errors,
    count(*) filter ((run, cause) in (select (run, id) from again)) as retries,
    (select min(outcome) from errors e
        where (e.run, e.source, e.destination, e.request)
            = (c.run, c.source, c.destination, c.request)
        and times = (select max(times) from errors o
            where (o.run, o.source, o.destination, o.request)
                = (c.run, c.source, c.destination, c.request))) as usual_error
from CallFinished c group by run, source, destination, request
