-- A reign lasts until it is resigned, its broker is gone, the next one begins or the run is over.
with reigns as (
    select *, lead(time_us) over (partition by run order by controller_epoch, time_us) as next_us
    from ControllerElected
),
ends_of_reigns as (
    select e.run, e.id, r.time_us as end_us, r.reason as how
    from reigns e join ControllerResigned r using (run, controller_epoch)
    union all
    select e.run, e.id, a.down_us,
        if(a.state = 'paused', 'its broker stood still', 'its broker went down')
    from reigns e join absences a on a.run = e.run and a.node = e.node and a.down_us >= e.time_us
    union all
    select run, id, greatest(next_us, time_us), 'the next one was elected'
    from reigns where next_us is not null
    union all
    select e.run, e.id, greatest(end_us, e.time_us), 'the run ended'
    from reigns e join ends using (run)
),
firsts as (
    select run, id, min((end_us, how)) as first from ends_of_reigns group by run, id
),
steps as (
    select run, controller_epoch, sum(took_us)::bigint as failover_us, count(*) as failover_steps
    from FailoverStep group by run, controller_epoch
)
select e.run, e.controller_epoch, e.broker, e.node, e.id, e.cause, e.time_us as elected_us,
    first[1] as ended_us, first[2] as ended_by, first[1] - e.time_us as life_us,
    failover_us, failover_steps
from ControllerElected e join firsts using (run, id) join ends using (run)
left join steps using (run, controller_epoch)
where e.time_us <= end_us
