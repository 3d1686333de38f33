-- What followers fetched from leaders, where they got an answer.
select run, destination as leader, source as follower, count(*) as fetches,
    sum(request_bytes)::bigint as request_bytes, sum(response_bytes)::bigint as response_bytes,
    share(latency_us, 50) as latency_p50_us, share(latency_us, 95) as latency_p95_us,
    share(latency_us, 99) as latency_p99_us, max(latency_us) as latency_max_us,
    sum(latency_us)::bigint as latency_total_us
from CallFinished
where request = 'Fetch' and outcome = 'ok' and source like 'broker-%'
group by run, destination, source
