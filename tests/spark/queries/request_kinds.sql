-- By request alone; the controller's own requests also by the partitions that changed.
with changed as (
    select run, count(*) as changes
    from (select run from LeaderElected union all select run from ReplicaLeftIsr) group by run
)
select c.run, request, count(*) as calls,
    sum(request_bytes)::bigint as request_bytes, sum(response_bytes)::bigint as response_bytes,
    share(latency_us, 50) as latency_p50_us, share(latency_us, 95) as latency_p95_us,
    share(latency_us, 99) as latency_p99_us, max(latency_us) as latency_max_us,
    sum(latency_us)::bigint as latency_total_us, count(*) filter (outcome <> 'ok') as errors,
    case when request in ('LeaderAndIsr', 'StopReplica', 'UpdateMetadata')
        then count(*) / any_value(changes) end as calls_a_changed_partition
from CallFinished c left join changed using (run) group by c.run, request
