-- By what actors are, without who and which, and by message: how long it waited and took.
select run, kind_of(actor) as kind, message, count(*) as messages,
    share(queue_us, 50) as queue_p50_us, share(queue_us, 95) as queue_p95_us,
    share(queue_us, 99) as queue_p99_us, max(queue_us) as queue_max_us,
    sum(queue_us)::bigint as queue_total_us,
    share(handle_us, 50) as handle_p50_us, share(handle_us, 95) as handle_p95_us,
    share(handle_us, 99) as handle_p99_us, max(handle_us) as handle_max_us,
    sum(handle_us)::bigint as handle_total_us
from MessageHandled group by run, kind, message
