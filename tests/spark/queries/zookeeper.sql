-- ZooKeeper's operations by outcome: their latency, and how many znodes each was about.
select run, operation, outcome, count(*) as operations,
    share(latency_us, 50) as latency_p50_us, share(latency_us, 95) as latency_p95_us,
    share(latency_us, 99) as latency_p99_us, max(latency_us) as latency_max_us,
    sum(latency_us)::bigint as latency_total_us, sum(count)::bigint as znodes,
    avg(count) as batch_mean, max(count) as batch_max
from KeeperOperation group by run, operation, outcome
