-- Without a leader: from when the leader is gone or stands still until the next one leads, or the
-- same goes on. Under-replicated: from the change of the ISR on. Each with the last incident before.
with marks as (
    select run, time_us, id, topic, partition, node from ReplicaRoleChanged where role = 'leader'
    union all
    select run, time_us, id, topic, partition, '' from LeaderElected where leader = -1
    union all
    select run, time_us, id, topic, partition, '' from ReplicaLeftIsr
    anti join mournful using (run, id) where leader = -1
    union all
    select run, time_us, id, topic, partition, null from PartitionStateChanged
    where after = 'NonExistentPartition'
),
reigns as (
    select *, lead(time_us) over (partition by run, topic, partition order by time_us, id) as next_us
    from marks
),
spans_of_leaders as (
    select *, least(coalesce(next_us, end_us), end_us) as until_us,
        next_us is null or next_us >= end_us as goes_on
    from reigns join ends using (run) where node is not null
),
pieces as (
    select run, topic, partition, l.node as lost, greatest(l.time_us, a.down_us) as from_us,
        case when a.state = 'paused' then least(l.until_us, coalesce(a.up_us, l.until_us))
            else l.until_us end as to_us,
        l.goes_on and not (a.state = 'paused' and coalesce(a.up_us < l.until_us, false)) as is_open
    from spans_of_leaders l join absences a using (run, node)
    where l.node <> '' and a.down_us < l.until_us and coalesce(a.up_us > l.time_us, true)
    union all
    select run, topic, partition, null, time_us, until_us, goes_on
    from spans_of_leaders where node = ''
),
-- A window is made of pieces that overlap or touch: one begins where no earlier piece reaches.
heads as (
    select *, not exists (
        from pieces o where o.run = p.run and o.topic = p.topic and o.partition = p.partition
        and o.from_us < o.to_us
        and (o.from_us, o.to_us) < (p.from_us, p.to_us) and o.to_us >= p.from_us) as is_head
    from pieces p where from_us < to_us
),
numbered as (
    select *, count(*) filter (is_head) over (partition by run, topic, partition
        order by from_us, to_us rows unbounded preceding) as number
    from heads
),
leaderless as (
    select run, topic, partition, min(from_us) as from_us, max(to_us) as to_us,
        arg_min_null(lost, from_us) as lost,
        bool_or(is_open and to_us = longest_us) as is_open, 'leaderless' as kind
    from (
        select *, max(to_us) over (partition by run, topic, partition, number) as longest_us
        from numbered)
    group by run, topic, partition, number
),
states as (
    select *, in_sync < factor and not is_gone as is_under from replica_sets
),
changes as (
    select * from (
        select *, lag(is_under) over (partition by run, topic, partition order by time_us, id)
            as was_under from states)
    where was_under is distinct from is_under
),
under_replicated as (
    select run, topic, partition, time_us as from_us,
        least(coalesce(next_us, end_us), end_us) as to_us, null as lost,
        next_us is null or next_us >= end_us as is_open, 'under-replicated' as kind
    from (
        select *, lead(time_us) over (partition by run, topic, partition order by time_us, id)
            as next_us from changes) join ends using (run)
    where is_under
)
select w.run, w.topic, w.partition, w.from_us, w.to_us, w.lost, w.is_open, w.kind,
    (select arg_max(incident, (i.time_us, i.incident)) from incidents i
        where i.run = w.run and i.time_us <= w.from_us
        and (w.lost is null or i.target = w.lost)) as incident,
    w.to_us - w.from_us as duration_us
from (from leaderless union all by name from under_replicated) w
where from_us < to_us
