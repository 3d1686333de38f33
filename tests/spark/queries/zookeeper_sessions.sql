-- What became of each node's sessions; each of its lives counts them anew.
with changes as (
    select *, lag(state) over lives as before, lag(session) over lives as number from SessionChanged
    window lives as (partition by run, node order by time_us, id)
)
select run, node,
    count(*) filter (state = 'connected' and not coalesce(before = 'suspended' and number = session, false)) as sessions,
    count(*) filter (state = 'connected') as connected, count(*) filter (state = 'suspended') as suspended,
    count(*) filter (state = 'expired') as expired, count(*) filter (state = 'closed') as closed
from changes group by run, node
