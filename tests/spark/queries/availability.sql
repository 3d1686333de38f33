-- A row a partition that was ever out: how often, how long in all, how long at most.
select run, topic, partition,
    count(*) filter (kind = 'leaderless') as leaderless_windows,
    coalesce(sum(duration_us) filter (kind = 'leaderless'), 0)::bigint as leaderless_us,
    coalesce(max(duration_us) filter (kind = 'leaderless'), 0) as leaderless_longest_us,
    count(*) filter (kind <> 'leaderless') as under_replicated_windows,
    coalesce(sum(duration_us) filter (kind <> 'leaderless'), 0)::bigint as under_replicated_us,
    coalesce(max(duration_us) filter (kind <> 'leaderless'), 0) as under_replicated_longest_us
from availability_windows group by run, topic, partition
