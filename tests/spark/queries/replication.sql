-- What a partition's replicas appended and cut off, its ISR's coming and going, and the lag of its
-- slowest follower: at the ends of slices ten times as wide as others, and in the end.
with appends as (
    select *, time_us - time_us % (10 * (select width_us from slices)) as bin_us from RecordsAppended
),
copies as (
    select run, topic, partition, count(*) filter (role = 'leader') as batches,
        coalesce(sum(last_offset - first_offset + 1) filter (role = 'leader'), 0) as records,
        coalesce(sum(last_offset - first_offset + 1) filter (role = 'follower'), 0) as copied
    from RecordsAppended group by run, topic, partition
),
changes as (
    select run, topic, partition, time_us, in_sync, factor, in_sync - lag(in_sync) over
        (partition by run, topic, partition order by time_us, id) as change
    from replica_sets where not is_gone
),
living as (
    select c.* from changes c join ends using (run) where c.time_us <= end_us
),
isrs as (
    select run, topic, partition, count(*) filter (change < 0) as shrinks, count(*) filter (change > 0) as expands,
        min(in_sync)::int as fewest_in_sync, max(factor)::int as replicas
    from living group by run, topic, partition
),
cut as (
    select run, topic, partition, count(*) as truncations,
        sum(log_end_offset - "offset") as records_cut
    from LogTruncated group by run, topic, partition
),
moments as (select distinct run, topic, partition, bin_us from appends),
replicas as (select distinct run, topic, partition, node from appends),
behind as (
    select run, topic, partition, max(greatest(
        (select max(l.last_offset) from appends l where l.run = r.run and l.topic = r.topic
            and l.partition = r.partition and l.role = 'leader' and l.bin_us <= m.bin_us)
        - (select max(l.last_offset) from appends l where l.run = r.run and l.topic = r.topic
            and l.partition = r.partition and l.node = r.node and l.bin_us <= m.bin_us),
        0)) as lag_max
    from moments m join replicas r using (run, topic, partition) group by run, topic, partition
),
lasts as (
    select run, topic, partition, node, max(last_offset) as last
    from RecordsAppended group by run, topic, partition, node
),
in_the_end as (
    select run, topic, partition, max(last) - min(last) as lag_last
    from lasts group by run, topic, partition
)
select run, topic, partition, coalesce(batches, 0) as batches,
    coalesce(records, 0)::bigint as records, coalesce(copied, 0)::bigint as copied,
    coalesce(copied / nullif(records, 0), 0)::double as amplification,
    coalesce(shrinks, 0) as shrinks, coalesce(expands, 0) as expands,
    coalesce(fewest_in_sync, 0) as fewest_in_sync, coalesce(replicas, 0) as replicas,
    coalesce(truncations, 0) as truncations, coalesce(records_cut, 0)::bigint as records_cut,
    coalesce(lag_max, 0) as lag_max, coalesce(lag_last, 0) as lag_last
from copies full join isrs using (run, topic, partition)
full join cut using (run, topic, partition)
left join behind using (run, topic, partition)
left join in_the_end using (run, topic, partition)
