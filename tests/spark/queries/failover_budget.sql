-- Where the time went after each incident: the controller's first reaction to it, and whatever has
-- that message at the end of its chain of causes.
with recursive noticed as (
    select run, time_us, node, cause, 'broker-' || unnest(string_split(removed || ',' || bounced, ','))
        as target, 'the controller saw it go' as reaction
    from BrokersChanged
),
reactions as (
    select * from noticed where target <> 'broker-'
    union all
    select distinct e.run, e.time_us, e.node, e.cause, 'broker-' || b.broker,
        'another controller was elected'
    from ControllerElected e
    join ControllerElected b on b.run = e.run and b.controller_epoch = e.controller_epoch - 1
    union all
    select run, min(time_us), node, cause, null, 'the controller moved its leaderships'
    from LeaderElected where reason like 'ControlledShutdown%' group by run, node, cause
    union all
    select run, min(time_us), node, cause, '(disk)', 'the controller gave up what was on its disk'
    from (select run, time_us, node, cause from LeaderElected
        union all select run, time_us, node, cause from ReplicaLeftIsr)
    where (run, cause) in (select (run, id) from control where message = 'LeaderAndIsrAnswered')
    group by run, node, cause
),
reacted as (
    select i.*, (
        select arg_min(r, r.time_us) from reactions r
        where r.run = i.run and r.time_us >= i.time_us and r.time_us < i.until_us
        and (r.target = i.target or (r.target is null and i.what in ('shutdown', 'shut down'))
            or (r.target = '(disk)' and r.time_us >= (select min(d.time_us) from LogDirWentOffline d
                where d.run = i.run and d.node = i.target
                and d.time_us >= i.time_us and d.time_us < i.until_us)))
    ) as r
    from incidents i
),
chains as (
    select distinct run, cause as root, cause as id, 0 as hops from reactions
    union all
    select c.run, c.root, m.id, hops + 1
    from chains c join control m on m.run = c.run and m.cause = c.id
    where hops < 4 and contains(m.actor, '/channel-')
),
told as (
    select c.run, c.root as cause, max(f.time_us) as told_us,
        count(distinct f.destination) as brokers_told
    from chains c join CallFinished f on f.run = c.run and f.cause = c.id
    where f.outcome = 'ok' and f.request in ('LeaderAndIsr', 'StopReplica', 'UpdateMetadata')
    group by c.run, c.root
),
writes as (
    select run, cause, min(time_us - latency_us) as first_write_us, max(time_us) as written_us,
        sum(count)::bigint as znodes
    from KeeperOperation where operation = 'write' and outcome = 'ok' group by run, cause
),
elections as (
    select run, cause, count(*) as elections, count(*) filter (is_unclean) as unclean,
        max(time_us) as elected_us
    from LeaderElected group by run, cause
),
shrinks as (
    select run, cause, count(*) as left_isr from ReplicaLeftIsr group by run, cause
),
served as (
    select e.run, e.cause, max(t.time_us) as serving_us
    from LeaderElected e join ReplicaRoleChanged t using (run, topic, partition, leader_epoch)
    where e.leader >= 0 and t.role = 'leader' group by e.run, e.cause
),
produced as (
    select e.run, e.cause, min(first_us) as first_produce_us, max(first_us) as last_produce_us,
        count(*) as produced_to
    from LeaderElected e join first_appends a using (run, topic, partition, leader_epoch)
    where e.leader >= 0 and a.role = 'leader' group by e.run, e.cause
),
gaps as (
    select run, incident, kind, count(distinct (topic, partition)) as partitions,
        max(duration_us) as longest_us, sum(duration_us)::bigint as total_us,
        bool_or(is_open)::int as still
    from availability_windows group by run, incident, kind
)
select i.run, i.incident, r.cause, i.time_us, what, i.target, detail, number, until_us, mended_us,
    r.time_us as reacted_us, r.node as controller, r.reaction,
    (select max(w.time_us) from WatchFired w
        where w.run = i.run and w.node = r.node and w.path in ('/controller', '/brokers/ids')
        and w.time_us between i.time_us and coalesce(m.time_us, r.time_us)) as watch_us,
    m.time_us as begun_us,
    coalesce(elections, 0) as elections, coalesce(unclean, 0) as unclean, elected_us,
    coalesce(left_isr, 0) as left_isr, first_write_us, written_us, znodes, told_us, brokers_told,
    serving_us, first_produce_us, last_produce_us, produced_to,
    coalesce(g.partitions, 0) as leaderless, g.longest_us as leaderless_longest_us,
    coalesce(g.total_us, 0) as leaderless_us, g.still as still_leaderless,
    coalesce(u.partitions, 0) as under_replicated, u.longest_us as under_replicated_longest_us,
    coalesce(u.total_us, 0) as under_replicated_us, u.still as still_under_replicated,
    coalesce(try_cast(regexp_extract(i.target, '^broker-([0-9]{1,9})$', 1) as bigint), -1) as broker
from reacted i
left join control m on m.run = i.run and m.id = r.cause and m.actor like '%/controller'
left join elections e on e.run = i.run and e.cause = r.cause
left join shrinks s on s.run = i.run and s.cause = r.cause
left join writes w on w.run = i.run and w.cause = r.cause
left join told t on t.run = i.run and t.cause = r.cause
left join served v on v.run = i.run and v.cause = r.cause
left join produced p on p.run = i.run and p.cause = r.cause
left join gaps g on g.run = i.run and g.incident = i.incident and g.kind = 'leaderless'
left join gaps u on u.run = i.run and u.incident = i.incident and u.kind = 'under-replicated'
