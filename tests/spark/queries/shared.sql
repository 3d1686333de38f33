-- What several queries stand on. Every event is a view of its name; widths is a table of the
-- widths that a slice of time may have.

-- Ten binary digits matter: what is below 1,024 is kept as it is.
create macro rounded(v) as
    case when v < 1024 then v else v - v % (1::bigint << (length(bin(v)) - 10)) end;

-- So many hundredths of the values are no larger; between two values, what lies between them.
create macro between_two(sorted, hundredths) as
    sorted[hundredths // 100 + 1]
    + (sorted[(hundredths + 99) // 100 + 1] - sorted[hundredths // 100 + 1])
        * (hundredths % 100) // 100;

create macro share(v, of) as between_two(list_sort(list(rounded(v))), (count(v) - 1) * of);

create macro kind_of(actor) as
    regexp_replace(regexp_replace(actor, '^[^/]*/', ''), '-[0-9]+', '-N', 'g');

-- Events that hold until something else comes.
create view lasting as
select run, id, time_us, node from ControllerElected
union all select run, id, time_us, node from IsrChanged
union all select run, id, time_us, node from LeaderElected
union all select run, id, time_us, node from NodePaused
union all select run, id, time_us, node from NodeResumed
union all select run, id, time_us, node from NodeStarted
union all select run, id, time_us, node from NodeStopped
union all select run, id, time_us, node from ReplicaLeftIsr
union all select run, id, time_us, node from ReplicaRoleChanged
union all select run, id, time_us, node from BrokerStateChanged
union all select run, id, time_us, node from FailoverStep
union all select run, id, time_us, node from FaultHealed
union all select run, id, time_us, node from FaultInjected
union all select run, id, time_us, node from SessionChanged;

-- A run lasts from its first to its last message, or such an event.
create view spans as
select run, min(time_us) as first_us, max(time_us) as last_us
from (select run, time_us from MessageHandled union all select run, time_us from lasting)
group by run;

-- The narrowest slice of which the longest run has no more than 240.
create view slices as
select coalesce(min(width_us), 86400000000) as width_us
from widths
where width_us * 240 >= (select max(last_us - first_us) from spans);

create macro slice_of(us) as us - us % (select width_us from slices);

-- A run ends where the last goodbyes began, if nobody is left after them; or with its last message.
create view lives as
select *,
    (select max(l.time_us) from BrokerStateChanged l
        where l.run = s.run and l.node = s.node and l.state = 'PendingControlledShutdown'
          and l.time_us between s.time_us and coalesce(gone_us, next_us, 1::bigint << 62)) as left_us
from (
    select *,
        (select min(g.time_us) from NodeStopped g
            where g.run = b.run and g.node = b.node and g.time_us >= b.time_us
              and (b.next_us is null or g.time_us <= b.next_us)) as gone_us
    from (
        select run, node, time_us,
            lead(time_us) over (partition by run, node order by time_us, id) as next_us
        from NodeStarted
    ) b
) s;

create view goodbyes as
with last_lives as (
    select *, max(time_us) over (partition by run) as last_start_us from lives
),
farewells as (
    select run, coalesce(left_us, gone_us) as left_us, coalesce(gone_us, left_us) as gone_us,
        bool_or(left_us is null and gone_us is null) over (partition by run) as somebody_stays
    from last_lives
    where (gone_us is null or gone_us > last_start_us) and next_us is null
),
gaps as (
    select *, coalesce(
        lag(left_us) over (partition by run order by left_us desc, gone_us desc) - gone_us > 2000000,
        false) as is_gap
    from farewells where not somebody_stays
),
chained as (
    select *, count(*) filter (is_gap)
        over (partition by run order by left_us desc, gone_us desc rows unbounded preceding) as gaps
    from gaps
)
select run, min(left_us) as goodbye_us from chained where gaps = 0 group by run;

create view ends as
select run, least(last_us, coalesce(goodbye_us, last_us)) as end_us
from spans left join goodbyes using (run);

-- When nodes came and went.
create view presences as
select run, id, time_us, node, 'up' as state from NodeStarted
union all select run, id, time_us, node, 'down' from NodeStopped
union all select run, id, time_us, target, 'down' from FaultInjected where fault = 'kill'
union all select run, id, time_us, node, 'paused' from NodePaused
union all select run, id, time_us, target, 'paused' from FaultInjected where fault = 'pause'
union all select run, id, time_us, node, 'up' from NodeResumed
union all select run, id, time_us, target, 'up' from FaultHealed where fault = 'pause';

create view absences as
with changes as (
    select *, lag(state) over (partition by run, node order by time_us, id) as before from presences
)
select a.run, a.node, a.state, a.time_us as down_us, min(u.time_us) as up_us
from changes a
left join presences u on u.run = a.run and u.node = a.node and u.state = 'up'
    and (u.time_us, u.id) > (a.time_us, a.id)
where a.state <> 'up' and a.before is distinct from a.state
group by a.run, a.node, a.state, a.time_us, a.id;

create view control as select * from MessageHandled where contains(actor, '/controller');

-- What each leader epoch of each replica appended first.
create view first_appends as
select run, node, topic, partition, role, leader_epoch, min(time_us) as first_us, min(id) as id
from RecordsAppended group by all;

-- When partitions came to life and went. What is still done to one that is gone is no outage.
create view turns as
select run, topic, partition, time_us, id, false as is_gone from LeaderElected
union all
select run, topic, partition, time_us, id, true from PartitionStateChanged
where after = 'NonExistentPartition';

create view mournful as
select r.run, r.id from ReplicaLeftIsr r
where (select arg_max(is_gone, (t.time_us, t.id)) from turns t where t.run = r.run
    and t.topic = r.topic and t.partition = r.partition and (t.time_us, t.id) < (r.time_us, r.id));

-- A partition's replicas and those in sync, after each change.
create view replica_sets as
with changes as (
    select run, id, time_us, topic, partition, isr, replicas, false as is_gone from LeaderElected
    union all
    select run, id, time_us, topic, partition, isr, null, false from ReplicaLeftIsr
    anti join mournful using (run, id)
    union all
    select run, id, time_us, topic, partition, isr, null, false from IsrChanged
    union all
    select run, id, time_us, topic, partition, null, null, true from PartitionStateChanged
    where after = 'NonExistentPartition'
)
select *,
    coalesce(
        len(string_split(last_value(nullif(replicas, '') ignore nulls) over so_far, ',')),
        max(in_sync) over so_far
    ) as factor
from (
    select *, case when coalesce(isr, '') = '' then 0 else len(string_split(isr, ',')) end as in_sync
    from changes
)
window so_far as (partition by run, topic, partition order by time_us, id);

-- A topic that is made anew begins another life, with leader epoch 0.
create view births as
select run, topic, partition, time_us, id from LeaderElected where reason = 'NewPartition';
